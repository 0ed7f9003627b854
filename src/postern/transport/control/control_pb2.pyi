from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HeartBeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AgentReport(_message.Message):
    __slots__ = ("hello", "heart_beat")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    HEART_BEAT_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    heart_beat: HeartBeat
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., heart_beat: _Optional[_Union[HeartBeat, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("name", "instance", "facts", "declaration")
    class FactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    DECLARATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    instance: str
    facts: _containers.ScalarMap[str, str]
    declaration: Declaration
    def __init__(self, name: _Optional[str] = ..., instance: _Optional[str] = ..., facts: _Optional[_Mapping[str, str]] = ..., declaration: _Optional[_Union[Declaration, _Mapping]] = ...) -> None: ...

class Declaration(_message.Message):
    __slots__ = ("name", "type", "subtype", "command", "reviewers", "redact_types", "connection_tags", "default_database")
    class ConnectionTagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SUBTYPE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    REVIEWERS_FIELD_NUMBER: _ClassVar[int]
    REDACT_TYPES_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_TAGS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_DATABASE_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    subtype: str
    command: _containers.RepeatedScalarFieldContainer[str]
    reviewers: _containers.RepeatedScalarFieldContainer[str]
    redact_types: _containers.RepeatedScalarFieldContainer[str]
    connection_tags: _containers.ScalarMap[str, str]
    default_database: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., subtype: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., reviewers: _Optional[_Iterable[str]] = ..., redact_types: _Optional[_Iterable[str]] = ..., connection_tags: _Optional[_Mapping[str, str]] = ..., default_database: _Optional[str] = ...) -> None: ...

class AgentOrder(_message.Message):
    __slots__ = ("welcome", "workers_changed", "heart_beat", "drain", "revoked")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    WORKERS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    HEART_BEAT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    workers_changed: WorkersChanged
    heart_beat: HeartBeat
    drain: Drain
    revoked: Revoked
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., workers_changed: _Optional[_Union[WorkersChanged, _Mapping]] = ..., heart_beat: _Optional[_Union[HeartBeat, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., revoked: _Optional[_Union[Revoked, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("agent_id", "tunnel_url", "worker_ids")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    TUNNEL_URL_FIELD_NUMBER: _ClassVar[int]
    WORKER_IDS_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    tunnel_url: str
    worker_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, agent_id: _Optional[str] = ..., tunnel_url: _Optional[str] = ..., worker_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkersChanged(_message.Message):
    __slots__ = ("worker_ids",)
    WORKER_IDS_FIELD_NUMBER: _ClassVar[int]
    worker_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, worker_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Revoked(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class ProxyReport(_message.Message):
    __slots__ = ("hello", "heart_beat", "answer")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    HEART_BEAT_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    hello: ProxyHello
    heart_beat: HeartBeat
    answer: ProxyAnswer
    def __init__(self, hello: _Optional[_Union[ProxyHello, _Mapping]] = ..., heart_beat: _Optional[_Union[HeartBeat, _Mapping]] = ..., answer: _Optional[_Union[ProxyAnswer, _Mapping]] = ...) -> None: ...

class ProxyHello(_message.Message):
    __slots__ = ("instance", "version")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    instance: str
    version: str
    def __init__(self, instance: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class ProxyAnswer(_message.Message):
    __slots__ = ("order_id", "failure", "port")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    failure: str
    port: int
    def __init__(self, order_id: _Optional[str] = ..., failure: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class ProxyOrder(_message.Message):
    __slots__ = ("heart_beat", "connect", "disconnect", "welcome")
    HEART_BEAT_FIELD_NUMBER: _ClassVar[int]
    CONNECT_FIELD_NUMBER: _ClassVar[int]
    DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    heart_beat: HeartBeat
    connect: ConnectOrder
    disconnect: DisconnectOrder
    welcome: ProxyWelcome
    def __init__(self, heart_beat: _Optional[_Union[HeartBeat, _Mapping]] = ..., connect: _Optional[_Union[ConnectOrder, _Mapping]] = ..., disconnect: _Optional[_Union[DisconnectOrder, _Mapping]] = ..., welcome: _Optional[_Union[ProxyWelcome, _Mapping]] = ...) -> None: ...

class ProxyWelcome(_message.Message):
    __slots__ = ("tunnel_url",)
    TUNNEL_URL_FIELD_NUMBER: _ClassVar[int]
    tunnel_url: str
    def __init__(self, tunnel_url: _Optional[str] = ...) -> None: ...

class ConnectOrder(_message.Message):
    __slots__ = ("order_id", "connection", "port", "access_seconds")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    ACCESS_SECONDS_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    connection: str
    port: int
    access_seconds: int
    def __init__(self, order_id: _Optional[str] = ..., connection: _Optional[str] = ..., port: _Optional[int] = ..., access_seconds: _Optional[int] = ...) -> None: ...

class DisconnectOrder(_message.Message):
    __slots__ = ("order_id",)
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    def __init__(self, order_id: _Optional[str] = ...) -> None: ...
