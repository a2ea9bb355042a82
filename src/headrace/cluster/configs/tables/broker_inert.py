"""Kafka broker settings without effect in Headrace: KRaft, tiered storage, Java."""

TABLE = """\
alter.config.policy.class.name class null LOW
    Java class that can reject configuration changes.
auto.include.jmx.reporter boolean true LOW hidden
    Adds Java's JMX reporter.
background.threads int 10 min=1 HIGH cluster-wide
    Threads for background work.
broker.heartbeat.interval.ms int 2000
    Interval of heartbeats to a KRaft controller.
broker.session.timeout.ms int 9000
    Session timeout at a KRaft controller.
client.quota.callback.class class null LOW
    Java class that computes client quotas.
config.providers list "" LOW cluster-wide
    Java classes that resolve variables in settings.
control.plane.listener.name string null HIGH hidden
    Listener for the controller's requests of older versions.
controller.listener.names list null HIGH
    Listeners of KRaft controllers.
controller.performance.always.log.threshold.ms long 2000 min=0 hidden
    KRaft controller events slower than this are logged.
controller.performance.sample.period.ms long 60000 min=100 hidden
    How often a KRaft controller logs its performance.
controller.quorum.append.linger.ms int 25 min=0
    How long a KRaft leader collects writes.
controller.quorum.auto.join.enable boolean false LOW
    Allows a KRaft controller to add itself as a voter.
controller.quorum.bootstrap.servers list "" HIGH
    Addresses of the KRaft quorum.
controller.quorum.election.backoff.max.ms int 1000 min=0 HIGH
    Maximum back-off of KRaft elections.
controller.quorum.election.timeout.ms int 1000 min=0 HIGH
    Timeout of a KRaft election.
controller.quorum.fetch.max.bytes int 1048576 min=1 LOW
    Maximum size of a fetch of KRaft's metadata log.
controller.quorum.fetch.snapshot.max.bytes int 1048576 min=1 LOW
    Maximum size of a fetch of a KRaft snapshot.
controller.quorum.fetch.timeout.ms int 2000 min=0 HIGH
    Time without a fetch after which KRaft voters start an election.
controller.quorum.request.timeout.ms int 2000 min=0
    Timeout of KRaft requests.
controller.quorum.retry.backoff.ms int 20 min=0 LOW
    Pause before a KRaft request is retried.
controller.quorum.voters list "" HIGH
    The KRaft voters.
create.topic.policy.class.name class null LOW
    Java class that can reject topic creation.
delegation.token.master.key password null hidden
    Older name of delegation.token.secret.key.
delete.records.purgatory.purge.interval.requests int 1
    Purge interval of a purgatory; Headrace removes completed requests at once.
early.start.listeners list null HIGH
    Listeners that a KRaft broker opens before it is ready.
fetch.purgatory.purge.interval.requests int 1000
    Purge interval of a purgatory; Headrace removes completed requests at once.
follower.fetch.last.tiered.offset.enable boolean false cluster-wide
    Allows followers to start at the last tiered offset.
group.coordinator.background.threads int 2 min=1 HIGH
    Threads for the group coordinator's background work.
group.coordinator.threads int 4 min=1 HIGH
    Threads of the group coordinator.
group.share.persister.class.name string \
org.apache.kafka.server.share.persister.DefaultStatePersister hidden
    Java class that stores share state.
inter.broker.protocol.version string null hidden
    Protocol version for brokers of older versions.
internal.metadata.delete.delay.millis long 60000 LOW hidden
    Delay before old KRaft files are deleted.
internal.metadata.log.segment.bytes int null LOW hidden
    Segment size of KRaft's metadata log, in tests.
internal.metadata.max.batch.size.in.bytes int 8388608 LOW hidden
    Largest batch of KRaft's metadata log.
kafka.metrics.polling.interval.secs int 10 min=1 LOW
    Polling interval of Kafka's metrics reporters.
kafka.metrics.reporters list "" LOW
    Java classes that report Kafka's own metrics.
log.message.downconversion.enable boolean true LOW hidden
    Converts batches for clients that Kafka 4 no longer serves.
log.message.format.version string null hidden
    Format of stored messages; only the current format exists.
log.message.timestamp.difference.max.ms long 9223372036854775807 min=0 hidden
    Older form of log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms;
    use those.
metadata.log.dir string null HIGH
    Directory of KRaft's metadata log.
metadata.log.max.record.bytes.between.snapshots long 20971520 min=1 HIGH
    Bytes between two KRaft snapshots.
metadata.log.max.snapshot.interval.ms long 3600000 min=0 HIGH
    Time between two KRaft snapshots.
metadata.log.segment.bytes int 1073741824 min=8388608 HIGH
    Segment size of KRaft's metadata log.
metadata.log.segment.ms long 604800000 HIGH
    Segment age of KRaft's metadata log.
metadata.max.idle.interval.ms int 500 min=0 LOW
    How often a KRaft controller writes no-op records.
metadata.max.retention.bytes long 104857600 HIGH
    Maximum size of KRaft's metadata log.
metadata.max.retention.ms long 604800000 HIGH
    Maximum age of KRaft's metadata log.
metric.reporters list org.apache.kafka.common.metrics.JmxReporter LOW cluster-wide
    Java classes that report metrics.
num.io.threads int 8 min=1 HIGH cluster-wide
    Threads that handle requests; Headrace uses one event loop.
num.network.threads int 3 min=1 HIGH cluster-wide
    Threads that read and write sockets; Headrace uses one event loop.
password.encoder.cipher.algorithm string AES/CBC/PKCS5Padding LOW hidden
    Cipher of stored passwords.
password.encoder.key.length int 128 min=8 LOW hidden
    Key length of the cipher of stored passwords.
password.encoder.keyfactory.algorithm string null LOW hidden
    Key factory of the cipher of stored passwords.
principal.builder.class class \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder per-broker
    Java class that builds the principal of a connection.
process.roles list null in=broker|controller HIGH
    KRaft roles of the process. In Headrace every node is a broker and can be elected
    controller.
producer.purgatory.purge.interval.requests int 1000
    Purge interval of a purgatory; Headrace removes completed requests at once.
remote.fetch.max.wait.ms int 500 min=1 cluster-wide
    Maximum wait for a fetch from tiered storage.
remote.list.offsets.request.timeout.ms long 30000 min=1 cluster-wide
    Maximum wait for offsets from tiered storage.
remote.log.index.file.cache.total.size.bytes long 1073741824 min=1 LOW cluster-wide
    Size of the cache of tiered index files.
remote.log.index.file.cache.ttl.ms long 900000 min=-1 LOW hidden
    How long tiered index files stay cached.
remote.log.manager.copier.thread.pool.size int 10 min=1 cluster-wide
    Threads that copy segments to tiered storage.
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 min=1 cluster-wide
    Maximum rate of copies to tiered storage.
remote.log.manager.copy.quota.window.num int 11 min=1
    Number of windows for the quota of copies to tiered storage.
remote.log.manager.copy.quota.window.size.seconds int 1 min=1
    Length of one window of the quota of copies to tiered storage.
remote.log.manager.expiration.thread.pool.size int 10 min=1 cluster-wide
    Threads that delete from tiered storage.
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 min=1 cluster-wide
    Maximum rate of fetches from tiered storage.
remote.log.manager.fetch.quota.window.num int 11 min=1
    Number of windows for the quota of fetches from tiered storage.
remote.log.manager.fetch.quota.window.size.seconds int 1 min=1
    Length of one window of the quota of fetches from tiered storage.
remote.log.manager.follower.thread.pool.size int 2 min=1 cluster-wide
    Threads that follow tiered partitions.
remote.log.manager.task.interval.ms long 30000 min=1 LOW
    Interval of the tasks of tiered storage.
remote.log.manager.task.retry.backoff.max.ms long 30000 min=1 LOW hidden
    Maximum back-off of the tasks of tiered storage.
remote.log.manager.task.retry.backoff.ms long 500 min=1 LOW hidden
    Initial back-off of the tasks of tiered storage.
remote.log.manager.task.retry.jitter double 0.2 min=0 max=0.5 LOW hidden
    Random share of the back-off of the tasks of tiered storage.
remote.log.manager.thread.pool.size int 2 min=1
    Threads for the tasks of tiered storage.
remote.log.metadata.custom.metadata.max.bytes int 128 min=0 LOW
    Maximum size of the metadata of a tiered storage plugin.
remote.log.metadata.manager.class.name string \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager \
rule=non-empty
    Java class that manages the metadata of tiered storage.
remote.log.metadata.manager.class.path string null
    Class path of remote.log.metadata.manager.class.name.
remote.log.metadata.manager.impl.prefix string rlmm.config. rule=non-empty
    Prefix of the settings of remote.log.metadata.manager.class.name.
remote.log.metadata.manager.listener.name string null
    Listener that remote.log.metadata.manager.class.name uses.
remote.log.reader.max.pending.tasks int 100 min=1
    Maximum number of reads from tiered storage that wait.
remote.log.reader.threads int 10 min=1 cluster-wide
    Threads that read from tiered storage.
remote.log.storage.manager.class.name string null
    Java class that implements tiered storage.
remote.log.storage.manager.class.path string null
    Class path of remote.log.storage.manager.class.name.
remote.log.storage.manager.impl.prefix string rsm.config. rule=non-empty
    Prefix of the settings of remote.log.storage.manager.class.name.
remote.log.storage.system.enable boolean false
    Turns tiered storage on.
sasl.client.callback.handler.class class null
    Java class of a SASL client.
sasl.kerberos.kinit.cmd string /usr/bin/kinit per-broker
    Path of kinit; Headrace does not support Kerberos.
sasl.kerberos.min.time.before.relogin long 60000 per-broker
    Minimum time between Kerberos logins.
sasl.kerberos.principal.to.local.rules list DEFAULT per-broker
    Rules that map Kerberos principals to short names.
sasl.kerberos.service.name string null per-broker
    Kerberos service name.
sasl.kerberos.ticket.renew.jitter double 0.05 per-broker
    Random share of the renewal time of Kerberos tickets.
sasl.kerberos.ticket.renew.window.factor double 0.8 per-broker
    Share of a Kerberos ticket's lifetime after which it is renewed.
sasl.login.callback.handler.class class null
    Java class of a SASL login.
sasl.login.class class null
    Java class of a SASL login.
sasl.login.connect.timeout.ms int null LOW
    Connect timeout of an external login provider.
sasl.login.read.timeout.ms int null LOW
    Read timeout of an external login provider.
sasl.login.refresh.buffer.seconds short 300 per-broker
    Time before a login's expiry in which it is not refreshed.
sasl.login.refresh.min.period.seconds short 60 per-broker
    Minimum time between two refreshes of a login.
sasl.login.refresh.window.factor double 0.8 per-broker
    Share of a login's lifetime after which it is refreshed.
sasl.login.refresh.window.jitter double 0.05 per-broker
    Random share of sasl.login.refresh.window.factor.
sasl.login.retry.backoff.max.ms long 10000 LOW
    Maximum back-off of logins.
sasl.login.retry.backoff.ms long 100 LOW
    Initial back-off of logins.
sasl.mechanism.controller.protocol string GSSAPI HIGH
    SASL mechanism for KRaft controllers.
sasl.oauthbearer.assertion.algorithm string RS256 in=ES256|RS256 icase
    Algorithm that signs a client's assertion.
sasl.oauthbearer.assertion.claim.aud string null
    Audience of a client's assertion.
sasl.oauthbearer.assertion.claim.exp.seconds int 300 min=0 max=86400 LOW
    Lifetime of a client's assertion.
sasl.oauthbearer.assertion.claim.iss string null
    Issuer of a client's assertion.
sasl.oauthbearer.assertion.claim.jti.include boolean false
    Adds an id to a client's assertion.
sasl.oauthbearer.assertion.claim.nbf.seconds int 60 min=0 max=3600 LOW
    Start of validity of a client's assertion.
sasl.oauthbearer.assertion.claim.sub string null
    Subject of a client's assertion.
sasl.oauthbearer.assertion.file string null
    File with a client's assertion.
sasl.oauthbearer.assertion.private.key.file string null
    File with the key that signs a client's assertion.
sasl.oauthbearer.assertion.private.key.passphrase password null
    Password of sasl.oauthbearer.assertion.private.key.file.
sasl.oauthbearer.assertion.template.file string null
    Template of a client's assertion.
sasl.oauthbearer.client.credentials.client.id string null
    Id of an OAuth client.
sasl.oauthbearer.client.credentials.client.secret password null
    Secret of an OAuth client.
sasl.oauthbearer.jwt.retriever.class class \
org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
    Java class that fetches tokens.
sasl.oauthbearer.jwt.validator.class class \
org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    Java class that validates tokens.
sasl.oauthbearer.scope string null
    Scope that an OAuth client requests.
sasl.oauthbearer.token.endpoint.url string null
    URL from which an OAuth client fetches its token.
sasl.server.callback.handler.class class null
    Java class of a SASL server.
security.providers string null LOW
    Java security providers.
server.max.startup.time.ms long 9223372036854775807 min=0 hidden
    Maximum time for the start of the broker.
share.coordinator.threads int 1 min=1
    Threads of the share coordinator.
share.fetch.purgatory.purge.interval.requests int 1000
    Purge interval of a purgatory; Headrace removes completed requests at once.
ssl.engine.factory.class class null LOW per-broker
    Java class that creates TLS engines.
ssl.keymanager.algorithm string SunX509 per-broker
    Java key manager algorithm.
ssl.protocol string TLSv1.3 per-broker
    Name of the Java TLS context; ssl.enabled.protocols sets the accepted versions.
ssl.provider string null per-broker
    Java TLS provider.
ssl.secure.random.implementation string null LOW per-broker
    Java random number generator.
ssl.trustmanager.algorithm string PKIX per-broker
    Java trust manager algorithm.
unstable.api.versions.enable boolean false HIGH hidden
    Enables API versions that are not released.
unstable.feature.versions.enable boolean false HIGH hidden
    Enables feature levels that are not released.
zookeeper.clientCnxnSocket string null hidden
    Java class for ZooKeeper connections.
zookeeper.metadata.migration.enable boolean false HIGH hidden
    Migrates a ZooKeeper cluster to KRaft.
zookeeper.ssl.crl.enable boolean false LOW hidden
    Checks revocation lists with Java's TLS to ZooKeeper.
zookeeper.ssl.ocsp.enable boolean false LOW hidden
    Checks revocation by OCSP with Java's TLS to ZooKeeper.
queued.max.request.bytes long -1
    Maximum bytes of waiting requests over all connections; -1 means unlimited.
queued.max.requests int 500 min=1 HIGH
    Maximum number of waiting requests before the broker stops reading from sockets.
socket.send.buffer.bytes int 102400 min=-1 HIGH
    SO_SNDBUF of client connections; -1 uses the operating system's default.
request.timeout.ms int 30000 HIGH
    How long the broker waits for a response to its own requests.
"""
