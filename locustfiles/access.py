"""Who may use Locust where there is an API_KEY: its page asks for the key, and only workers that have it join its
master.
"""

import hmac
import secrets
from http import HTTPStatus
from typing import Any

import zmq
import zmq.utils.z85
from flask import Request, redirect, request, session, url_for
from flask_login import UserMixin, login_user
from locust.env import Environment
from locust.rpc.zmqrpc import BaseSocket
from locust.web import WebUI
from werkzeug.wrappers import Response


def encrypt(key: str) -> None:
    """From now on, messages between Locust's master and workers of this process are encrypted by CURVE
    (https://rfc.zeromq.org/spec/26/).

    A worker must know the master's public key before it connects, and it is never sent: whoever does not have the key
    that it is made of can neither join nor pose as the master.
    """
    secret = zmq.utils.z85.encode(hmac.digest(key.encode(), b"fiveway: locust's master", "sha256"))
    public = zmq.curve_public(secret)
    plain: Any = BaseSocket.__init__

    def encrypted(self: Any, sock_type: int, ipv4_only: bool) -> None:
        plain(self, sock_type, ipv4_only)
        if sock_type == zmq.ROUTER:
            self.socket.curve_secretkey, self.socket.curve_server = secret, True
        else:
            self.socket.curve_publickey, self.socket.curve_secretkey = zmq.curve_keypair()
            self.socket.curve_serverkey = public

    BaseSocket.__init__ = encrypted  # type: ignore[method-assign]


class Holder(UserMixin):
    """Whoever has the key."""

    id = "holder"


def ask(environment: Environment, web_ui: WebUI, key: str) -> None:
    """Let a page that was started with --web-login ask for the key: by a form, or `authorization: Bearer KEY`."""
    app, holder = web_ui.app, Holder()
    assert app
    assert environment.parsed_options
    form = f"{environment.parsed_options.web_base_path}/key"

    def right(said: str) -> bool:
        return hmac.compare_digest(said.encode(), key.encode())

    # The secret is another after each start: pages that were open ask again. The cookie is not sent from other sites.
    app.config |= {"SECRET_KEY": secrets.token_hex(), "SESSION_COOKIE_SAMESITE": "Strict"}
    web_ui.auth_args = {
        "custom_form": {
            "inputs": [{"label": "API_KEY of the stack", "name": "key", "is_secret": True, "is_required": True}],
            "callback_url": form,
            "submit_button_text": "Open",
        }
    }
    web_ui.login_manager.user_loader(lambda _: holder)

    @web_ui.login_manager.request_loader
    def sent(asked: Request) -> Holder | None:
        return holder if right(asked.headers.get("authorization", "").removeprefix("Bearer ")) else None

    @app.post(form)
    def enter() -> Response:
        if right(request.form.get("key", "")):
            login_user(holder)
            return redirect(url_for("locust.index"), HTTPStatus.SEE_OTHER)
        session["auth_error"] = "That is not the key: it is API_KEY in the stack's .env"
        return redirect(url_for("locust.login"), HTTPStatus.SEE_OTHER)
