"""The pages over HTTP: who may ask, and which function answers.

The server listens on this machine alone. Every address begins with a random token; `Host` and
`Origin` must be this server's own, so that neither another site nor a name that somebody has
pointed at this machine gets an answer; and pages may load nothing but what comes from here.
"""

from __future__ import annotations

import secrets
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ndis.app import steps
from ndis.app.desk import Desk
from ndis.app.drafts import Draft

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_STATIC = {"app.css": "text/css", "app.js": "text/javascript", "icon.svg": "image/svg+xml"}
_MOST_FORM = 2**22


class Guard:
    """Lets through what comes from its own pages, and gives every answer the headers above."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *own]}
            await send(message)

        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http" and (refused := self.refusal(scope)):
            await PlainTextResponse(refused, 403)(scope, receive, with_headers)
        elif scope["type"] == "http":
            await self.app({**scope, "root_path": f"/{self.token}"}, receive, with_headers)

    def refusal(self, scope: Scope) -> str:
        """Why a request is not answered; nothing if it is."""
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            known = name.decode("latin-1")
            if known in ("host", "origin", "sec-fetch-site") and known in headers:
                return "Two hosts or origins."
            headers[known] = value.decode("latin-1")
        host, origin = headers.get("host", ""), headers.get("origin")
        token = scope["path"].lstrip("/").partition("/")[0]
        if host not in self.hosts:
            return "Wrong host."
        if origin != f"http://{host}" and (origin is not None or scope["method"] != "GET"):
            return "Wrong origin."
        # The file that opens the browser leads here, too; without the token nothing is answered.
        led = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        led = led and headers.get("sec-fetch-dest") == "document"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not led:
            return "Wrong site."
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return "Open the address that `ndis app` printed: it holds a secret."
        return ""


class Pages:
    """One function for each address."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.base = desk, f"/{desk.token}"
        draft = "/draft/{key}"
        self.routes = [
            Route("/", self.first),
            Route("/static/{name}", self.static),
            Route(f"{draft}/answer", self.answer),
            Route(f"{draft}/progress", self.progress),
            Route(f"{draft}/save/{{what}}", self.save),
            Route(f"{draft}/upload", self.upload, methods=["POST"]),
            Route(f"{draft}/forecast", self.forecast, methods=["POST"]),
            Route(f"{draft}/start", self.start, methods=["POST"]),
            Route(f"{draft}/stop", self.stop, methods=["POST"]),
            Route(f"{draft}/again", self.again, methods=["POST"]),
            Route(f"{draft}/{{step}}", self.show),
            Route(f"{draft}/{{step}}", self.post, methods=["POST"]),
        ]

    def html(self, template: str, status: int = 200, **content: Any) -> Response:
        """A page, in which everything is escaped."""
        text = steps.TEMPLATES.get_template(template).render(
            base=self.base, steps=steps.STEPS, seed=self.desk.seed, **content
        )
        return Response(text, status, media_type="text/html")

    def page(self, step: str, draft: Draft, problem: str = "") -> Response:
        """A step, and what was wrong with what was typed there."""
        try:
            content = steps.SHOW[step](self.desk, draft)
        except Exception as error:  # told on the page, with a way back
            said = {"problem": problem or steps.sentence(error)}
            return self.html("trouble.html", 422, draft=draft, step=step, **said)
        content = {"problem": problem} | content if not problem else content | {"problem": problem}
        status = 422 if problem else 200
        return self.html(f"{step}.html", status, draft=draft, step=step, **content)

    def go(self, draft: Draft, where: str) -> Response:
        """To another page, which can be reloaded."""
        return RedirectResponse(f"{self.base}/draft/{draft.key}/{where}", 303)

    def found(self, request: Request) -> Draft | None:
        """The draft that is asked for."""
        return self.desk.drafts.get(request.path_params["key"])

    async def first(self, request: Request) -> Response:
        """A new draft."""
        self.desk.forget_door()
        return self.go(await run_in_threadpool(self.desk.new), "table")

    async def static(self, request: Request) -> Response:
        """The one style and the one script."""
        name = request.path_params["name"]
        if name not in _STATIC:
            return _nothing()
        text = resources.files("ndis.app").joinpath("static", name).read_text(encoding="utf8")
        return Response(text, media_type=_STATIC[name])

    async def show(self, request: Request) -> Response:
        """A step; of a draft that is published, its answer."""
        draft, step = self.found(request), request.path_params["step"]
        if draft is None or step not in steps.STEPS:
            return _nothing()
        if draft.job is not None and (await self._state(draft)) != "failed":
            return self.go(draft, "answer")
        return await run_in_threadpool(self.page, step, draft)

    async def _state(self, draft: Draft) -> str:
        assert draft.job is not None
        return (await run_in_threadpool(draft.job.outcome)).state

    async def post(self, request: Request) -> Response:
        """What was typed in a step."""
        draft, step = self.found(request), request.path_params["step"]
        if draft is None or step not in steps.STEPS:
            return _nothing()
        form = await _form(request)

        def work() -> Response:
            with draft.lock:
                if draft.job is not None and draft.job.outcome().state != "failed":
                    return self.go(draft, "answer")
                draft.job = None
                try:
                    return self.go(draft, steps.SAVE[step](self.desk, draft, form))
                except Exception as error:  # told on the page, where it can be corrected
                    return self.page(step, draft, steps.sentence(error))

        return await run_in_threadpool(work)

    async def upload(self, request: Request) -> Response:
        """A file that was dropped onto the page."""
        draft = self.found(request)
        if draft is None:
            return _nothing()
        name = unquote(request.headers.get("x-name", "table.csv"))
        try:
            await self.desk.upload(draft, name, request.stream())
        except Exception as error:  # told on the page
            return JSONResponse({"problem": steps.sentence(error)}, 422)
        return JSONResponse({"next": f"{self.base}/draft/{draft.key}/table"})

    async def forecast(self, request: Request) -> Response:
        """The part of a page that moves with the sliders; nothing is kept."""
        draft = self.found(request)
        if draft is None:
            return _nothing()
        form = await _form(request)

        def work() -> Response:
            try:
                trial = draft.copy()
                steps.take_privacy(trial, form)
                return self.html("forecast.html", found=steps.forecast(self.desk, trial))
            except Exception as error:  # told on the page
                return self.html("forecast.html", found=None, problem=steps.sentence(error))

        return await run_in_threadpool(work)

    async def start(self, request: Request) -> Response:
        """The button."""
        draft = self.found(request)
        if draft is None:
            return _nothing()
        form = await _form(request)

        def work() -> Response:
            try:
                steps.start(self.desk, draft, form)
            except Exception as error:  # told on the page
                return self.page("publish", draft, steps.sentence(error))
            return self.go(draft, "answer")

        return await run_in_threadpool(work)

    async def stop(self, request: Request) -> Response:
        """End a release that is not paid yet."""
        draft = self.found(request)
        if draft is None or draft.job is None:
            return _nothing()
        await run_in_threadpool(draft.job.stop)
        await run_in_threadpool(draft.job.process.wait)
        return self.go(draft, "answer")

    async def again(self, request: Request) -> Response:
        """Another draft with the same answers."""
        draft = self.found(request)
        if draft is None:
            return _nothing()
        return self.go(self.desk.keep(draft.copy()), "question")

    async def progress(self, request: Request) -> Response:
        """How far a release is."""
        draft = self.found(request)
        if draft is None or draft.job is None:
            return _nothing()
        found = await run_in_threadpool(draft.job.outcome)
        return JSONResponse({"state": found.state, "said": found.said, "share": found.share})

    async def answer(self, request: Request) -> Response:
        """The release, or how far it is."""
        draft = self.found(request)
        if draft is None or draft.job is None:
            return _nothing()
        content = await run_in_threadpool(steps.answer, self.desk, draft)
        return self.html("answer.html", draft=draft, step="publish", problem="", **content)

    async def save(self, request: Request) -> Response:
        """A file to keep."""
        draft, what = self.found(request), request.path_params["what"]
        if draft is None or draft.job is None or what not in {"release", *steps.SAVED}:
            return _nothing()
        if (await self._state(draft)) != "done":
            return _nothing()
        content, kind, name = await run_in_threadpool(steps.save, self.desk, draft, what)
        how = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
        return Response(content, media_type=kind, headers=how)


async def _form(request: Request) -> dict[str, list[str]]:
    """What was typed, by name."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > _MOST_FORM:
            raise HTTPException(413, "Expected a form of at most 4 MiB, got a longer one.")
    return parse_qs(bytes(content).decode("utf8", "replace"), keep_blank_values=True)


def _nothing() -> Response:
    return PlainTextResponse("There is no such page; open the app's first page again.", 404)


async def _trouble(request: Request, error: Exception) -> Response:
    """Whatever goes wrong is told to the owner, who alone sees it, and is written nowhere."""
    return PlainTextResponse(f"This did not work: {steps.sentence(error)}", 500)


def make(desk: Desk, port: int) -> ASGIApp:
    """The app, guarded."""
    app = Starlette(routes=Pages(desk).routes, exception_handlers={Exception: _trouble})
    return Guard(app, desk.token, port)
