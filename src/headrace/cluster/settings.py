"""A broker's settings at its start: the configured values, after validation, and the defaults.

An invalid setting is refused first, with a message that has the name, the value (unless it is a
secret) and the allowed values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.cluster.configs.catalog import BROKER, PLUGIN_PREFIXES, TOPIC, broker_definition
from headrace.cluster.configs.config_def import ConfigDef, ConfigValue, InvalidConfig
from headrace.cluster.controller_settings import ControllerSettings
from headrace.cluster.http_listener import read_http_listener
from headrace.cluster.ignored_settings import ignored_listeners, ignored_plugin, ignored_setting
from headrace.cluster.listener_settings import ListenerSettings
from headrace.cluster.listeners import (
    BadListener,
    Listener,
    check_advertised,
    name_of,
    read_listeners,
    read_protocol_map,
)
from headrace.name_suggestion import nearest_name
from headrace.security.principal import InvalidPrincipal, parse_super_users

if TYPE_CHECKING:
    from headrace.cluster.inter_broker_login import InterBrokerLogin
    from headrace.cluster.sasl_settings import SaslSettings

FLUSH_EACH_ACK: Final = "ack"
AUTHORIZERS: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""The values of authorizer.class.name; both are the built-in authorizer."""
NO_ID: Final = -1
UNSET_ID: Final = str(NO_ID)

_ORDERED: Final = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("group.share.min.session.timeout.ms", "group.share.session.timeout.ms"),
    ("group.share.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
)
"""Pairs of settings of which the first may not be larger than the second."""


_LATER: Final = (
    "alter.log.dirs.",
    "follower.",
    "group.coordinator.append.", "group.coordinator.cached.", "group.streams.", "leader.",
    "num.replica.", "offsets.commit.", "offsets.load.",
    "replica.", "replication.quota.",
    "share.coordinator.", "unclean.leader.election.interval.",
)  # fmt: skip
_ALREADY: Final = (
    "follower.replication.", "leader.replication.",
    "leader.imbalance.",
    "num.replica.alter.log.dirs.", "num.replica.fetchers", "offsets.commit.timeout.",
    "replica.alter.log.dirs.", "replica.fetch.", "replica.high.watermark.", "replica.lag.time.",
    "replica.selector.", "replica.socket.timeout.",
    "share.coordinator.cold.", "share.coordinator.snapshot.", "share.coordinator.state.topic.",
)  # fmt: skip
"""Prefixes of settings of planned features, except those under `_ALREADY`. Their values are
validated and have no effect."""

_JAAS_WITHOUT_PREFIX: Final = (
    "ignoring sasl.jaas.config: write it as listener.name.<listener>.<mechanism>.sasl.jaas.config"
)


class InvalidSetting(Exception):
    """An invalid setting: its name, its value and the allowed values."""

    def __init__(self, name: str, value: str, reason: str) -> None:
        definition = broker_definition(name)
        shown = "(hidden)" if definition is not None and definition.sensitive else value
        super().__init__(f"{name} = {shown}: {reason}")
        self.name = name
        self.value = shown
        self.reason = reason


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """`static` holds the configured values in canonical form; `warnings` has a sentence for each
    setting without effect, with the reason."""

    static: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets
    warnings: tuple[str, ...] = ()

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> "BrokerSettings":
        """Validates each value and their combinations; raises `InvalidSetting`."""
        static: dict[str, str] = {}
        warnings: list[str] = []
        for name, value in values.items():
            definition = broker_definition(name)
            if definition is None and name.startswith(PLUGIN_PREFIXES):
                warnings.append(ignored_plugin(name))
                continue
            if definition is None:
                raise InvalidSetting(name, value, _unknown(name))
            static[name] = _canonical(definition, name, value)
            is_planned = _is_planned(definition)
            if is_planned or not definition.meaningful_here:
                warnings.append(ignored_setting(name, definition, is_planned=is_planned))
        _check_identity(static)
        settings = cls(_with_aliases(static))
        settings._check()
        unbound = settings._controller_listeners()
        if unbound:
            warnings = [each for each in warnings if "controller.listener.names" not in each]
            warnings.append(ignored_listeners(unbound))
        warnings += settings._check_sasl()
        return cls(settings.static, tuple(warnings))

    # -- typed values: the configured value, else the default
    # ------------------------------------------

    def raw(self, name: str) -> str | None:
        """The text of a setting; None if it is unset and has no default."""
        value = self.static.get(name)
        return BROKER[name].default if value is None else value

    def value(self, name: str) -> ConfigValue | None:
        text = self.raw(name)
        return None if text is None else BROKER[name].parse(text)

    def integer(self, name: str) -> int:
        value = self.value(name)
        assert isinstance(value, int)
        return value

    def optional_integer(self, name: str) -> int | None:
        value = self.value(name)
        assert value is None or isinstance(value, int)
        return value

    def number(self, name: str) -> float:
        value = self.value(name)
        assert isinstance(value, float)
        return value

    def boolean(self, name: str) -> bool:
        value = self.value(name)
        assert isinstance(value, bool)
        return value

    def string(self, name: str) -> str | None:
        value = self.value(name)
        assert value is None or isinstance(value, str)
        return value

    def words(self, name: str) -> tuple[str, ...]:
        value = self.value(name)
        assert value is None or isinstance(value, tuple)
        return value or ()

    # -- values that depend on several settings --------------------------------------------

    @property
    def generates_id(self) -> bool:
        """Whether the cluster generates the broker's id."""
        return self.static.get("broker.id") == UNSET_ID

    @property
    def node_id(self) -> int:
        return NO_ID if self.generates_id else self.integer("node.id")

    def with_id(self, node_id: int) -> "BrokerSettings":
        """The settings with the generated id."""
        chosen = {"node.id": str(node_id), "broker.id": str(node_id)}
        return BrokerSettings({**self.static, **chosen}, self.warnings)

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The data directories; empty if none is configured."""
        return self.words("log.dirs") or self.words("log.dir")

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners to bind: those in controller.listener.names serve no clients."""
        return read_listeners(self._addresses("listeners"), self._protocols())

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """The configured advertised listeners; empty if the bound listeners are advertised."""
        addresses = self._addresses("advertised.listeners")
        return read_listeners(addresses, self._protocols()) if addresses else ()

    @property
    def http_listener(self) -> Listener | None:
        """The HTTP port for metrics and probes, if there is one."""
        return read_http_listener(self.string("headrace.http.listener") or "")

    @property
    def inter_broker_listener(self) -> Listener:
        """The listener for requests between brokers."""
        listeners = self.listeners
        chosen = self._inter_broker_name()
        return next((each for each in listeners if each.name == chosen), listeners[0])

    @property
    def inter_broker_login(self) -> "InterBrokerLogin | None":
        """The login at other brokers, if their listener uses SASL."""
        listener = self.inter_broker_listener
        if not listener.uses_sasl:
            return None
        from headrace.cluster.inter_broker_login import inter_broker_login

        try:
            return inter_broker_login(self.listener_settings(listener.name))
        except InvalidConfig as error:
            raise InvalidSetting(error.name, str(error.value), error.reason) from error

    def listener_settings(self, listener: str) -> ListenerSettings:
        """The static settings as this listener sees them."""
        return ListenerSettings(listener, (self.static,))

    def sasl(self, listener: Listener) -> "SaslSettings":
        """The SASL settings of a listener whose security protocol uses SASL."""
        from headrace.cluster.sasl_settings import BadSasl, read_sasl_settings

        try:
            return read_sasl_settings(self.static, listener)
        except BadSasl as error:
            raise InvalidSetting(error.name, error.value, error.reason) from error

    def controller(self) -> ControllerSettings:
        """The settings that the controller uses."""
        return ControllerSettings(
            node_id=self.node_id,
            num_partitions=self.integer("num.partitions"),
            replication_factor=self.integer("default.replication.factor"),
            delete_topics=self.boolean("delete.topic.enable"),
            static=self.static,
        )

    def _addresses(self, name: str) -> list[str]:
        """The addresses of a setting without those of KRaft controllers."""
        controllers = {each.upper() for each in self.words("controller.listener.names")}
        return [each for each in self.words(name) if name_of(each) not in controllers]

    def _controller_listeners(self) -> list[str]:
        """The names of the listeners that are not bound."""
        bound = self._addresses("listeners")
        return [name_of(each) for each in self.words("listeners") if each not in bound]

    def _inter_broker_name(self) -> str | None:
        """The configured name; as in Kafka, a security protocol alone names the listener, too."""
        name = self.string("inter.broker.listener.name")
        return name.upper() if name else self.static.get("security.inter.broker.protocol")

    def _protocols(self) -> dict[str, str]:
        return read_protocol_map(self.string("listener.security.protocol.map") or "")

    def _check(self) -> None:
        if self.node_id != self.integer("broker.id"):
            raise InvalidSetting(
                "broker.id", str(self.raw("broker.id")), f"must equal node.id = {self.node_id}"
            )
        for low, high in _ORDERED:
            if self.integer(low) > self.integer(high):
                raise InvalidSetting(
                    low, str(self.raw(low)), f"must not be larger than {high} = {self.raw(high)}"
                )
        self._check_listeners()
        self._check_http()
        self._check_tls()
        if self.static.get("zookeeper.connect"):
            self.inter_broker_login  # noqa: B018 - refuses a cluster member that cannot log in
        self._check_super_users()
        self._check_authorizer()

    def _check_authorizer(self) -> None:
        name = "authorizer.class.name"
        chosen = self.string(name) or ""
        if chosen and chosen not in AUTHORIZERS:
            reason = (
                "a Java class cannot run here; "
                f"{' and '.join(AUTHORIZERS)} both select the built-in authorizer"
            )
            raise InvalidSetting(name, chosen, reason)

    def _check_sasl(self) -> list[str]:
        """Checks the settings of each SASL listener; returns the warnings about them."""
        warnings: dict[str, None] = {}
        for listener in self.listeners:
            if listener.uses_sasl:
                warnings |= dict.fromkeys(self.sasl(listener).warnings)
        if "sasl.jaas.config" in self.static:
            warnings[_JAAS_WITHOUT_PREFIX] = None
        return list(warnings)

    def _check_super_users(self) -> None:
        text = self.string("super.users") or ""
        try:
            parse_super_users(text)
        except InvalidPrincipal as error:
            raise InvalidSetting("super.users", text, str(error)) from error

    def _check_listeners(self) -> None:
        name = "listener.security.protocol.map"
        try:
            self._protocols()
            name = "listeners"
            unbound = self._controller_listeners()
            if unbound and not self._addresses(name):
                raise BadListener(
                    "all of them are in controller.listener.names, which are not bound here; "
                    "add one for clients, e.g. PLAINTEXT://:9092"
                )
            bound = self.listeners
            name = "advertised.listeners"
            check_advertised(self.advertised_listeners, bound)
            name = "inter.broker.listener.name"
            by_protocol = "security.inter.broker.protocol"
            if not self.string(name):
                name = by_protocol
            elif by_protocol in self.static:
                raise BadListener(f"set either this or {by_protocol}")
            chosen = self._inter_broker_name()
            if chosen and chosen not in {listener.name for listener in bound}:
                names = ", ".join(listener.name for listener in bound)
                raise BadListener(f"no listener has this name; there are {names}")
        except BadListener as error:
            raise InvalidSetting(name, self.raw(name) or "", str(error)) from error

    def _check_http(self) -> None:
        name = "headrace.http.listener"
        address = self.string(name) or ""
        try:
            listener = self.http_listener
        except BadListener as error:
            raise InvalidSetting(name, address, str(error)) from error
        if listener is None:
            return
        if listener.name in {each.name for each in self.listeners}:
            reason = f"a listener for clients has the name {listener.name}; rename it"
            raise InvalidSetting(name, address, reason)
        if "bearer" in self.words("headrace.http.authentication") and not self.string(
            "headrace.http.bearer.token.file"
        ):
            reason = "bearer needs headrace.http.bearer.token.file"
            raise InvalidSetting("headrace.http.authentication", "bearer", reason)

    @property
    def tls_listeners(self) -> tuple[Listener, ...]:
        """The listeners that use TLS, with the HTTP port if it is one of them."""
        http = self.http_listener
        every = self.listeners if http is None else (*self.listeners, http)
        return tuple(listener for listener in every if listener.uses_tls)

    def _check_tls(self) -> None:
        for listener in self.tls_listeners:
            from headrace.cluster.tls_settings import read_tls_settings  # plaintext brokers do not

            try:
                read_tls_settings(listener, self.listener_settings(listener.name))
            except InvalidConfig as error:
                raise InvalidSetting(error.name, str(error.value or ""), error.reason) from error


def _is_planned(definition: ConfigDef) -> bool:
    """Whether the setting belongs to a planned feature."""
    name = definition.name
    return definition.meaningful_here and name.startswith(_LATER) and not name.startswith(_ALREADY)


def _canonical(definition: ConfigDef, name: str, value: str) -> str:
    try:
        return definition.canonical(value)
    except InvalidConfig as error:
        raise InvalidSetting(
            name, value, f"{error.reason} (allowed: {definition.allowed()})"
        ) from error


def _check_identity(static: Mapping[str, str]) -> None:
    """A broker of a cluster needs an id: two brokers with the same id would replace each other."""
    if not static.get("zookeeper.connect"):
        return
    identity = static.get("node.id") or static.get("broker.id") or UNSET_ID
    generates = static.get("broker.id.generation.enable", "true") == "true"
    if identity.startswith("-") and not generates:
        reason = (
            "each broker of a cluster needs a unique id: set broker.id, or "
            "broker.id.generation.enable=true"
        )
        raise InvalidSetting("broker.id", identity, reason)
    highest = static.get("reserved.broker.max.id") or BROKER["reserved.broker.max.id"].default or ""
    if generates and int(identity) > int(highest):
        reason = (
            f"ids above reserved.broker.max.id = {highest} are generated for brokers without an id"
        )
        raise InvalidSetting("broker.id", identity, reason)


def _with_aliases(static: dict[str, str]) -> Mapping[str, str]:
    """Copies the values of aliases to the names that the other code reads."""
    identity = static.get("node.id") or static.get("broker.id") or UNSET_ID
    if not identity.startswith("-"):
        static.setdefault("node.id", identity)
        static.setdefault("broker.id", identity)
    elif static.get("zookeeper.connect"):
        static["broker.id"] = UNSET_ID  # the cluster generates an id
    else:
        static["node.id"] = static["broker.id"] = BROKER["node.id"].default or ""
    if static.get("flush") == FLUSH_EACH_ACK:
        static.setdefault("log.flush.interval.messages", "1")
    return static


def _unknown(name: str) -> str:
    topic = TOPIC.get(name)
    if topic is not None and topic.synonyms:
        return f"this is a topic setting; for all topics set {topic.synonyms[0].name}"
    near = nearest_name(name, BROKER, cutoff=0.8)
    return "no such setting" if near is None else f"no such setting; did you mean {near}?"
