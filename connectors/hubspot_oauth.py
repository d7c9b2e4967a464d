"""HubSpot's token endpoint: a new access token for a refresh token.

Source: developers.hubspot.com/docs/api/working-with-oauth: POST /oauth/v1/token with a form; access tokens live half an
hour; a refresh token that is not good is 400 BAD_REFRESH_TOKEN (RFC 6749 section 5.2 names it invalid_grant).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlencode

from connectors.classify import json_object, text
from connectors.transport import Lost, Request, Transport
from domain.credentials import Renewed, Verdict

PATH = "/oauth/v1/token"
REFUSALS = frozenset({"BAD_REFRESH_TOKEN", "BAD_CLIENT_ID", "BAD_CLIENT_SECRET"})
STANDARD_REFUSALS = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})


@dataclass(frozen=True)
class HubSpotTokens:
    """The token endpoint of one app."""

    base_url: str
    client_id: str
    client_secret: str = field(repr=False)
    within: timedelta

    def __call__(self, refresh_token: str) -> Renewed | Verdict:
        """One request. A lost answer says nothing: the same refresh token is tried again, and may be used up."""
        form = {"grant_type": "refresh_token", "client_id": self.client_id, "client_secret": self.client_secret}
        body = urlencode({**form, "refresh_token": refresh_token}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        transport = Transport(self.base_url, None)
        try:
            reply = transport.write(Request("POST", PATH, body=body, headers=headers), self.within)
        finally:
            transport.close()
        if isinstance(reply, Lost) or reply.defect:
            return Verdict.NOT_RENEWED
        value = json_object(reply.body) or {}
        access, lifetime = text(value, "access_token"), value.get("expires_in")
        if reply.status == 200 and access is not None and isinstance(lifetime, int | str):
            return Renewed(access, timedelta(seconds=int(lifetime)), text(value, "refresh_token"))
        refused = text(value, "status") in REFUSALS or text(value, "error") in STANDARD_REFUSALS
        return Verdict.REFUSED if refused and reply.status in (400, 401) else Verdict.NOT_RENEWED
