"""Broker settings: TLS, SASL, access control."""

TABLE = """\
allow.everyone.if.no.acl.found boolean false
    With access control on, allows everyone to use a resource without ACLs.
authorizer.class.name string "" LOW
    Turns access control on; Kafka's StandardAuthorizer and AclAuthorizer both select the
    built-in authorizer.
connections.max.reauth.ms long 0
    Maximum lifetime of a SASL session before the client must authenticate again; 0 means unlimited.
delegation.token.expiry.check.interval.ms long 3600000 min=1 LOW
    How often expired delegation tokens are removed.
delegation.token.expiry.time.ms long 86400000 min=1
    How long a delegation token is valid before it must be renewed.
delegation.token.max.lifetime.ms long 604800000 min=1
    Age after which a delegation token can no longer be renewed.
delegation.token.secret.key password null
    Secret that signs delegation tokens; must be the same on every broker.
password.encoder.iterations int 4096 min=1024 LOW hidden
    Iterations that derive the key of encrypted passwords from the secret.
password.encoder.old.secret password null
    Previous secret, while password.encoder.secret is being replaced.
password.encoder.secret password null
    Secret that encrypts the passwords of dynamic settings; must be the same on every broker.
sasl.enabled.mechanisms list GSSAPI
    SASL mechanisms that clients may use.
sasl.jaas.config password null
    Login settings of one mechanism in JAAS form; set it with a listener and mechanism prefix.
sasl.mechanism.inter.broker.protocol string GSSAPI per-broker
    SASL mechanism for connections between brokers.
sasl.oauthbearer.clock.skew.seconds int 30 LOW
    Clock difference that is tolerated when a token's times are verified.
sasl.oauthbearer.expected.audience list "" HIGH
    Accepted audiences; a token must name one of them.
sasl.oauthbearer.expected.issuer string null HIGH
    Issuer that a token must name.
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 LOW
    How often the keys that sign tokens are fetched again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 LOW
    Maximum pause between attempts to fetch the keys.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 LOW
    Initial pause between attempts to fetch the keys.
sasl.oauthbearer.jwks.endpoint.url string null
    URL (https or file) of the keys that sign tokens.
sasl.oauthbearer.scope.claim.name string scope LOW
    Claim of a token that contains its scopes.
sasl.oauthbearer.sub.claim.name string sub LOW
    Claim of a token that names the principal.
sasl.server.max.receive.size int 524288
    Maximum size of a SASL message from a client.
security.inter.broker.protocol string PLAINTEXT in=PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL
    Security protocol for connections between brokers; inter.broker.listener.name takes
    precedence.
ssl.allow.dn.changes boolean false LOW
    Allows a renewed certificate to name another subject.
ssl.allow.san.changes boolean false LOW
    Allows a renewed certificate to name other hosts.
ssl.cipher.suites list "" per-broker
    Cipher suites to offer; if empty, those of the TLS library.
ssl.client.auth string none in=required|requested|none per-broker
    Whether clients need a certificate: required, requested or none.
ssl.enabled.protocols list TLSv1.2,TLSv1.3 per-broker
    TLS versions to accept.
ssl.endpoint.identification.algorithm string https LOW per-broker
    Verifies the peer's host name against its certificate (https); empty turns verification off.
ssl.key.password password null per-broker
    Password of the private key.
ssl.keystore.certificate.chain password null per-broker
    Certificate chain in PEM.
ssl.keystore.key password null per-broker
    Private key in PEM.
ssl.keystore.location string null per-broker
    File with the private key and its certificates.
ssl.keystore.password password null per-broker
    Password of the key store; not used with PEM.
ssl.keystore.type string JKS per-broker
    Format of the key store; PEM and PKCS12 are supported.
ssl.principal.mapping.rules string DEFAULT LOW
    Rules that map a certificate's subject to a principal.
ssl.truststore.certificates password null per-broker
    Trusted certificates in PEM.
ssl.truststore.location string null per-broker
    File with the trusted certificates.
ssl.truststore.password password null per-broker
    Password of the trust store; not used with PEM.
ssl.truststore.type string JKS per-broker
    Format of the trust store; PEM and PKCS12 are supported.
super.users string "" LOW
    Principals that may do everything, as User:name separated by semicolons.
"""
