"""The service of CoAP: its sockets, from the start of a broker that serves clients to its end."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from forebay.admin.coap.endpoint import CoapEndpoint
from forebay.core.errors import OptionError
from forebay.core.option_table import split_address
from forebay.core.options import Options
from forebay.server.broker_view import BrokerView
from forebay.server.runtime import Service

LEAVE_S: Final = 1.0  # that answers under way may take when the broker stops
OPTION: Final = "coap"


class CoapService(Service):
    """CoAP on every address of the listener's host."""

    def __init__(self, app: BrokerView) -> None:
        self.app = app
        self.endpoints: list[CoapEndpoint] = []

    async def start(self) -> dict[str, str]:
        name, port = split_address(self.app.options.coap)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(name, port, type=socket.SOCK_DGRAM)
            for address in dict.fromkeys((str(each[4][0]), int(each[4][1])) for each in found):
                _, endpoint = await loop.create_datagram_endpoint(lambda: CoapEndpoint(self.app), address)
                self.endpoints.append(endpoint)
        except OSError as error:
            for endpoint in self.endpoints:
                endpoint.transport.close()
            text = f"{OPTION}: cannot listen on {self.app.options.coap}: {error.strerror or error}"
            raise OptionError(text) from error
        actual = self.endpoints[0].transport.get_extra_info("sockname")
        host = f"[{actual[0]}]" if ":" in actual[0] else actual[0]
        return {OPTION: f"{host}:{actual[1]}"}

    def reload(self, options: Options) -> None:
        for endpoint in self.endpoints:
            endpoint.requests.transfers.octets_max = options.message_octets_max

    async def stop(self) -> None:
        for endpoint in self.endpoints:
            await endpoint.stop(LEAVE_S)
