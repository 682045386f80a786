"""A real PostgreSQL server, and connection pools before it, for the tests that need one.

It listens on a unix socket in a temporary folder and nowhere else, and runs as a user without
rights, as PostgreSQL insists on.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from requires import require_pgbouncer, require_postgresql


class Server:
    """A server with a database "postgres", started when it is made."""

    def __init__(self) -> None:
        self._programs = require_postgresql()
        self.folder = Path(tempfile.mkdtemp(prefix="ndis-postgresql-"))
        self._user = _unprivileged()
        if self._user is not None:
            os.chown(self.folder, self._user, -1)
        self._pools: list[subprocess.Popen[bytes]] = []
        self.run("initdb", "-D", self._data, "-U", "ndis", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return f"postgresql://ndis:secret@/postgres?host={self.folder}"

    def start(self, *settings: str) -> None:
        words = [word for setting in settings for word in ("-c", setting)]
        self._server = self._popen(
            self._programs / "postgres", "-D", self._data, "-k", self.folder, "-h", "", *words
        )
        while self.run("pg_isready", "-q", "-h", self.folder, check=False) != 0:
            assert self._server.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT lets it finish, SIGQUIT is like a power cut for its clients."""
        self._server.send_signal(how)
        self._server.wait()

    def pool(self) -> str:
        """Start a connection pool that lends each connection for one transaction; its address."""
        program, number = require_pgbouncer(), len(self._pools)
        place = self.folder / f"pool-{number}"
        place.mkdir()
        (place / "settings").write_text(
            f"[databases]\n* = host={self.folder}\n"
            f"[pgbouncer]\nunix_socket_dir = {place}\nlisten_port = 6432\nauth_type = trust\n"
            f"auth_file = {place}/users\npool_mode = transaction\ndefault_pool_size = 3\n"
            "server_login_retry = 0.1\n"
        )
        (place / "users").write_text('"ndis" "secret"\n')
        if self._user is not None:
            for path in (place, *place.iterdir()):
                os.chown(path, self._user, -1)
        self._pools.append(self._popen(program, "-q", place / "settings"))
        while not (place / ".s.PGSQL.6432").exists():
            assert self._pools[-1].poll() is None, (self.folder / "log").read_text()
            time.sleep(0.02)
        return f"postgresql://ndis:secret@/postgres?host={place}&port=6432"

    def close(self) -> None:
        for pool in self._pools:
            pool.kill()
            pool.wait()
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder)

    def run(self, program: str, *words: object, check: bool = True) -> int:
        command = [self._programs / program, *map(str, words)]
        with open(self.folder / "log", "ab") as log:
            done = subprocess.run(
                command, user=self._user, cwd=self.folder, stdout=log, stderr=log
            ).returncode
        assert not check or done == 0, (self.folder / "log").read_text()
        return done

    def _popen(self, program: Path, *words: object) -> subprocess.Popen[bytes]:
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                [program, *map(str, words)],
                user=self._user,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )


def _unprivileged() -> int | None:
    if os.geteuid() != 0:
        return None
    return next(each.pw_uid for each in pwd.getpwall() if each.pw_name in ("postgres", "nobody"))
