"""`headrace quota`: the limits of users, client ids and addresses."""
