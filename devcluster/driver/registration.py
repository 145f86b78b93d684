"""Registers the directory driver at a kubelet, by the kubelet's plugin registration API (pluginregistration/v1).

The kubelet watches a directory for sockets and calls each new one. Other drivers have a sidecar for that; the service
has two methods, and its messages are described here instead of in generated code
(k8s.io/kubelet/pkg/apis/pluginregistration/v1/api.proto).
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE: Final = "pluginregistration"
_CSI_VERSIONS: Final = ("1.0.0",)
_TEXT: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_BOOL: Final = descriptor_pb2.FieldDescriptorProto.TYPE_BOOL
_ONE: Final = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
_MANY: Final = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
_MESSAGES: Final[Mapping[str, Mapping[str, tuple[Any, Any]]]] = {
    "PluginInfo": {
        "type": (_TEXT, _ONE),
        "name": (_TEXT, _ONE),
        "endpoint": (_TEXT, _ONE),
        "supported_versions": (_TEXT, _MANY),
    },
    "RegistrationStatus": {"plugin_registered": (_BOOL, _ONE), "error": (_TEXT, _ONE)},
    "RegistrationStatusResponse": {},
    "InfoRequest": {},
}

logger = logging.getLogger(__name__)


def service(driver: str, endpoint: str) -> "grpc.GenericRpcHandler[Any, Any]":
    """Return the service that registers a CSI driver of that name on that socket."""
    messages = _message_classes()

    async def get_info(_: Any, __: Any) -> Any:
        information = messages["PluginInfo"]
        return information(type="CSIPlugin", name=driver, endpoint=endpoint, supported_versions=_CSI_VERSIONS)

    async def notify(status: Any, _: Any) -> Any:
        if status.plugin_registered:
            logger.info("Registered at the kubelet", extra={"driver": driver})
        else:
            logger.error("The kubelet rejected the driver", extra={"driver": driver, "error": status.error})
        return messages["RegistrationStatusResponse"]()

    def method(answer: Any, request: str) -> "grpc.RpcMethodHandler[Any, Any]":
        return grpc.unary_unary_rpc_method_handler(
            answer, messages[request].FromString, lambda message: message.SerializeToString()
        )

    methods = {
        "GetInfo": method(get_info, "InfoRequest"),
        "NotifyRegistrationStatus": method(notify, "RegistrationStatus"),
    }
    return grpc.method_handlers_generic_handler(f"{_PACKAGE}.Registration", methods)


def _message_classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, (kind, label)) in enumerate(fields.items(), start=1):
            message.field.add(name=field, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }
