"""``ndis party``: several organisations release columns of the same people for regression."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndis.cli.console import AsJson, Sign, echo, print_json, print_table
from ndis.cli.mistakes import Commands

if TYPE_CHECKING:
    from ndis.guarantee import Guarantee
    from ndis.ledger import Ledger
    from ndis.mechanisms.multiparty import Agreement

_AGREEMENT, _COMBINED = Path("agreement.json"), Path("combined.npz")
AgreementFile = Annotated[Path, typer.Option("--agreement", help="The file of `party init`.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        cls=Commands, no_args_is_help=True, help="Release columns of several parties together."
    )
    for command in (init, show, release, combine, train):
        group.command()(command)
    app.add_typer(group, name="party")


def init(
    rows: Annotated[int, typer.Option(help="The number of people, which becomes public.")],
    column: Annotated[
        list[str],
        typer.Option(
            help="PARTY:COLUMN:LOW:HIGH, such as clinic-a:age:0:120; repeat for every column."
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="The guarantee's epsilon.")],
    delta: Annotated[float, typer.Option(help="The guarantee's delta.")],
    protects: Annotated[
        str,
        typer.Option(help="party: a person's attributes at one party; person: the whole record."),
    ] = "party",
    components: Annotated[
        int | None, typer.Option(help="How many mixed rows to release.", show_default="the best")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The column by which all parties ordered the rows.")
    ] = None,
    seed: Annotated[
        str | None, typer.Option(help="Public seed of the signs, hexadecimal.", show_default="new")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write the agreement.")] = _AGREEMENT,
    as_json: AsJson = False,
) -> None:
    """Write down what all parties agree on; no data are read."""
    from ndis.mechanisms.multiparty import Agreement

    _require_new(out)
    agreement = Agreement(
        rows,
        _columns(column),
        epsilon,
        delta,
        protects,
        components,  # type: ignore[arg-type]  # None asks for the best
        key,
        **({} if seed is None else {"seed": _hexadecimal(seed)}),
    )
    agreement.save(out)
    _print_agreement(agreement, out, as_json)


def show(agreement: AgreementFile = _AGREEMENT, as_json: AsJson = False) -> None:
    """Show an agreement, its fingerprint and its guarantees."""
    from ndis.mechanisms.multiparty import Agreement

    _print_agreement(Agreement.load(agreement), agreement, as_json)


def release(
    data: Annotated[Path, typer.Argument(help="The party's table, Parquet or CSV.")],
    party: Annotated[str, typer.Option(help="Whose columns to release.")],
    agreement: AgreementFile = _AGREEMENT,
    ledger: Annotated[
        str | None, typer.Option(help="The party's budget.", show_default="DATA.ledger")
    ] = None,
    secret_file: Annotated[
        Path | None, typer.Option(help="A secret of all parties, which hides the keys' order.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the release.", show_default="PARTY.npz")
    ] = None,
    sign: Sign = None,
    as_json: AsJson = False,
) -> None:
    """Release one party's columns, mixed and with noise."""
    from ndis.mechanisms.multiparty import Agreement, release_party
    from ndis.release import writing_to

    loaded = Agreement.load(agreement)
    promise = loaded.guarantee(party)
    if not as_json:
        echo(f"Agreement {loaded.fingerprint}")
    with (
        writing_to(out or Path(f"{party}.npz"), key=sign) as file,
        _budget(ledger or f"{data}.ledger", loaded, party) as budget,
    ):
        _require_room(budget, promise)
        secret = None if secret_file is None else secret_file.read_text()
        made = release_party(loaded, party, data, secret=secret, ledger=budget)
    target = file.written
    if as_json:
        print_json(
            {
                "file": str(target),
                "digest": made.digest,
                "fingerprint": loaded.fingerprint,
                "guarantee": made.guarantee.to_dict() | {"loss": None},
                "joint_guarantee": loaded.joint_guarantee().to_dict() | {"loss": None},
            }
        )
        return
    echo(f"{target} is ready, digest {made.digest}.")
    echo(f"For a person's attributes at {party}: {made.guarantee}")
    echo(f"With all parties, for a person's whole record: {loaded.joint_guarantee()}")


def combine(
    parts: Annotated[list[Path], typer.Argument(help="The files of all parties.")],
    agreement: AgreementFile = _AGREEMENT,
    out: Annotated[Path, typer.Option(help="Where to write all together.")] = _COMBINED,
    key: Annotated[
        list[str] | None,
        typer.Option(help="PARTY=FILE: the public key (PEM) that signed a party's part; repeat."),
    ] = None,
    sign: Sign = None,
    as_json: AsJson = False,
) -> None:
    """Check that the parties' files fit together and join them."""
    from ndis.mechanisms import multiparty
    from ndis.release import NewFile, Release

    loaded = multiparty.Agreement.load(agreement)
    keys = dict(_pair(word) for word in key or ())
    with NewFile(out, sign) as file:
        whole = multiparty.combine(loaded, [Release.load(path) for path in parts], keys)
        file.write(whole)
    if as_json:
        print_json(
            {
                "file": str(out),
                "digest": whole.digest,
                "parts": dict(whole.parameters["parts"]),
                "guarantee": whole.guarantee.to_dict() | {"loss": None},
            }
        )
        return
    print_table(
        f"{out} is ready; compare the digests with those that the parties saw",
        ["party", "digest"],
        [[party, digest] for party, digest in whole.parameters["parts"].items()],
    )
    for party in loaded.parties:
        echo(f"For a person's attributes at {party}: {loaded.guarantee(party)}")
    echo(f"For a person's whole record: {whole.guarantee}")


def train(
    label: Annotated[str, typer.Option(help="The column to predict; any will do.")],
    combined: Annotated[Path, typer.Argument(help="The file of `party combine`.")] = _COMBINED,
    feature: Annotated[
        list[str] | None,
        typer.Option(help="A column to predict from; repeat. All others if not given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a linear model to the combined release; costs no budget."""
    from ndis.mechanisms import multiparty
    from ndis.release import Release

    model = multiparty.train(Release.load(combined), label, feature or None)
    if as_json:
        print_json(model.to_dict())
        return
    rows = [[name, f"{value:.6g}"] for name, value in zip(model.features, model.coef, strict=True)]
    print_table(
        f"{label} from the other columns",
        ["column", "coefficient"],
        [*rows, ["intercept", f"{model.intercept:.6g}"]],
    )


def _columns(words: Sequence[str]) -> dict[str, dict[str, tuple[float, float]]]:
    parties: dict[str, dict[str, tuple[float, float]]] = {}
    for word in words:
        try:
            party, rest = word.split(":", 1)
            name, low, high = rest.rsplit(":", 2)
            interval = float(low), float(high)
        except ValueError:
            raise ValueError(
                f"Expected --column PARTY:COLUMN:LOW:HIGH, got {word!r}; "
                "write it like clinic-a:age:0:120."
            ) from None
        if name in parties.setdefault(party, {}):
            raise ValueError(f"Expected distinct columns, got {name!r} twice; leave one out.")
        parties[party][name] = interval
    return parties


def _pair(word: str) -> tuple[str, str]:
    party, sign, path = word.partition("=")
    if not (party and sign and path):
        raise ValueError(f"Expected --key PARTY=FILE, got {word!r}; write it like clinic-a=a.pem.")
    return party, path


def _hexadecimal(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        raise ValueError(
            f"Expected --seed as a hexadecimal number, got {text!r}; leave it out for a new one."
        ) from None


def _budget(path: str, agreement: "Agreement", party: str) -> "Ledger":
    """The party's ledger; a new one has room for exactly this release."""
    from ndis.ledger import Ledger

    promise = agreement.guarantee(party)
    try:
        ledger = Ledger.create(path, promise.epsilon, promise.delta, promise.relation, mode="plan")
    except FileExistsError:
        return Ledger(path)
    ledger.plan([promise])
    return ledger


def _require_room(ledger: "Ledger", promise: "Guarantee") -> None:
    """Refuse before the work what the ledger would refuse after it."""
    from ndis.ledger import BudgetExceeded

    try:
        ledger.preview(promise)
    except BudgetExceeded as refusal:
        raise BudgetExceeded(
            f"Expected room for this release in {ledger.path}, got a spent budget: these "
            "columns were released before; use that file, or agree on a larger budget.",
            refusal.asked,
            refusal.left,
        ) from None


def _require_new(path: Path) -> None:
    if path.exists():
        raise FileExistsError(
            f"Expected a new file, got {path}, which exists; choose another with --out."
        )


def _print_agreement(agreement: "Agreement", path: Path, as_json: bool) -> None:
    if as_json:
        each = {party: agreement.guarantee(party).to_dict() for party in agreement.parties}
        print_json(
            agreement.to_dict()
            | {"fingerprint": agreement.fingerprint, "guarantees": each}
            | {"joint_guarantee": agreement.joint_guarantee().to_dict()}
        )
        return
    print_table(
        f"{path}: {agreement.n_rows} people, {agreement.n_components} rows released",
        ["party", "column", "low", "high", "noise"],
        [
            [party, name, f"{low:g}", f"{high:g}", f"{agreement.noise_scale(party) * half:.4g}"]
            for party, limits in agreement.parties.items()
            for name, (low, high) in limits.items()
            for half in [0.5 * (high - low)]
        ],
    )
    echo(f"Fingerprint, to be compared by all parties: {agreement.fingerprint}")
    for party in agreement.parties:
        echo(f"For a person's attributes at {party}: {agreement.guarantee(party)}")
    echo(f"For a person's whole record: {agreement.joint_guarantee()}")
