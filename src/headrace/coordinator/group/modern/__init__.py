"""The common part of consumer groups (KIP-848) and share groups (KIP-932).

The coordinator computes the target assignment, and members reconcile to it at their own pace.
Epochs show the progress of each member.
"""
