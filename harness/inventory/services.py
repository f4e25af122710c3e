"""How to reach what runs beside the clusters' APIs: LINSTOR's controller, and Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from harness.inventory.part import Part
from harness.inventory.secrets import SecretRef
from harness.inventory.shapes import Name, Port, Url, Words

_ONE_WAY = "exactly one of url and service"


class Linstor(Part):
    """How to reach LINSTOR's controller: its REST API over TLS, for holders of a certificate."""

    url: Url = Field(
        description="Address of its REST API (https://linstor.example:3371); the controller is "
        "Service linstor-controller in cozy-linstor."
    )
    ca: SecretRef = Field(description="Certificate of the authority that signed the controller's.")
    certificate: SecretRef = Field(description="The client certificate that it lets in.")
    key: SecretRef = Field(description="Private key of that certificate.")


class MetricsService(Part):
    """A Service that is asked through the proxy of its cluster's API server."""

    cluster: Literal["management", "tenant"] = Field(
        default="management", description="Whose API server: the management cluster's, or tenant's."
    )
    namespace: Name = Field(description="Namespace of the Service.")
    name: Name = Field(description="Name of the Service.")
    port: Port = Field(description="Its port.")
    scheme: Literal["http", "https"] = Field(
        default="http", description="What the Service speaks on that port."
    )


class Prometheus(Part):
    """Prometheus' HTTP API: by its address, or through an API server. Only read, never written."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["url"]}, {"required": ["service"]}],
            "dependentRequired": {
                "certificate": ["key"],
                "key": ["certificate"],
                "user": ["password"],
                "password": ["user"],
            },
        },
    )

    url: Url | None = Field(
        default=None,
        description="Address of its API, up to what stands before /api/v1 "
        "(https://metrics.example/select/0/prometheus).",
    )
    service: MetricsService | None = Field(
        default=None, description="Instead of url: a Service, through the API server's proxy."
    )
    ca: SecretRef | None = Field(
        default=None,
        description="Certificate of the authority that signed its own; else the "
        "system's authorities count.",
    )
    certificate: SecretRef | None = Field(
        default=None, description="Client certificate that it asks for."
    )
    key: SecretRef | None = Field(default=None, description="Private key of that certificate.")
    token: SecretRef | None = Field(default=None, description="Bearer token to show it.")
    user: Words | None = Field(default=None, description="User for basic authentication.")
    password: SecretRef | None = Field(default=None, description="Password of that user.")
    node_label: Words = Field(
        default="node",
        description="Label of node_memory_... that holds the Node's name; with or without a port.",
    )
    labels: Mapping[Words, Words] = Field(
        default={},
        description="More labels that the series of this tenant have, where one server holds "
        "several clusters ({cluster: lab}).",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_way(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and ("url" in value) == ("service" in value):
            raise ValueError(_ONE_WAY)
        return value

    @model_validator(mode="after")
    def _whole_credentials(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key go together")
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together")
        if self.token is not None and self.user is not None:
            raise ValueError("a token or a user, not both")
        if self.service is not None and (self.token or self.user or self.ca or self.certificate):
            raise ValueError("a service takes no credentials: the API server's are used")
        return self
