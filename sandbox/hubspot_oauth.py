"""HubSpot's OAuth token endpoint: access tokens that expire, and refresh tokens that may be good for one use only.

Source: developers.hubspot.com/docs/api/working-with-oauth (a refused refresh is 400 with BAD_REFRESH_TOKEN).
"""

from __future__ import annotations

import json
from urllib.parse import parse_qsl

from sandbox.clock import now_ms
from sandbox.records import Records
from sandbox.settings import Knobs, Settings
from sandbox.wire import Answer, Call, json_answer

PATH = "/oauth/v1/token"
_LATEST = "oauth_refresh_token"


class OAuth:
    """Issues and checks tokens; what was issued is kept in the data file."""

    def __init__(self, records: Records, settings: Settings, knobs: Knobs) -> None:
        self._records = records
        self._settings = settings
        self._knobs = knobs

    def token(self, call: Call) -> Answer:
        """A new access token for the refresh token that is good now."""
        given = dict(parse_qsl(call.text()))
        client = (given.get("client_id"), given.get("client_secret"))
        if client != (self._settings.hubspot_client_id, self._settings.hubspot_oauth_secret):
            return _refused("BAD_CLIENT_ID", "missing or unknown client id")
        if self._knobs.now.oauth_refuses or given.get("refresh_token") != self._good():
            return _refused("BAD_REFRESH_TOKEN", "missing or invalid refresh token")
        return json_answer(self._issued())

    def _good(self) -> str:
        return str(self._records.kept(_LATEST, self._settings.hubspot_refresh_token))

    def _issued(self) -> dict[str, object]:
        number = self._records.next_number("oauth_tokens", 1)
        lifetime = self._knobs.now.oauth_lifetime
        access, refresh = f"at-{number}", self._good()
        if self._knobs.now.oauth_rotates:
            refresh = f"rt-{number}"
            self._records.keep(_LATEST, refresh)
        self._records.keep(f"oauth:{access}", {"until": now_ms() + int(lifetime * 1000), "epoch": self._epoch()})
        return {"access_token": access, "refresh_token": refresh, "expires_in": int(lifetime), "token_type": "bearer"}

    def _epoch(self) -> int:
        return self._knobs.now.oauth_epoch

    def accepts(self, token: str) -> bool:
        """Whether this access token was issued, has not expired, and is not of an epoch that was ended."""
        issued = self._records.kept(f"oauth:{token}", None)
        return issued is not None and issued["until"] > now_ms() and issued["epoch"] == self._epoch()


def _refused(status: str, message: str) -> Answer:
    body = {"status": status, "message": message, "correlationId": "00000000-0000-4000-8000-000000000000"}
    return Answer(400, json.dumps(body).encode(), (("content-type", "application/json;charset=utf-8"),))
