"""ACLs in words: `allow User:alice to read topic orders`. Pure."""

from headrace.security.authorization.acl import ANY_HOST, Acl, AclResourceType, Code


def word_of(code: Code) -> str:
    """`describe-configs` for DESCRIBE_CONFIGS."""
    return code.name.lower().replace("_", "-")


def rule_of(acl: Acl) -> str:
    """An ACL as a sentence: `allow User:alice to read topic orders`."""
    type_, name, pattern_type = acl.pattern
    resource = word_of(type_)
    if type_ is not AclResourceType.CLUSTER:
        prefix = "" if pattern_type.name == "LITERAL" else f"{word_of(pattern_type)} "
        resource = f"{resource} {prefix}{name}"
    host = "" if acl.host == ANY_HOST else f" from {acl.host}"
    verb = word_of(acl.operation)
    return f"{word_of(acl.permission)} {acl.principal} to {verb} {resource}{host}"
