"""What consumer groups (KIP-848) and share groups (KIP-932) have in common.

The coordinator computes who should have which partition (the target), and members come to it at
their own pace. Epochs say how far each one is.
"""
