"""The command ``ndis``: a module for each group of commands, one place for errors."""

import sys
import warnings
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words after the program name; those of the process by default.

    Examples
    --------
    >>> import contextlib
    >>> from ndis.cli import main
    >>> with contextlib.suppress(SystemExit):
    ...     main(["--version"])
    ndis ...
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(words)
    except KeyboardInterrupt:  # while modules are loaded; later ones are errors like others
        print("ndis: interrupted; nothing was paid.", file=sys.stderr)
        code = 130
    raise SystemExit(code)


def _run(words: list[str]) -> int:
    from ndis.cli.console import complain, debugging, say
    from ndis.cli.program import command

    debug = debugging("--debug" in words)
    call = [word for word in words if word != "--debug"]
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(str(message))
        try:
            return command()(call, prog_name="ndis", standalone_mode=False) or 0
        except Exception as error:  # told in a sentence; --debug shows it whole
            if debug:
                raise
            return complain(error)
