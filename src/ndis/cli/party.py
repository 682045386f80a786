"""``ndis party``: several organisations release columns of the same people for regression."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis._validate import read_text
from ndis.cli.console import Reply, Shown, open_ledger

if TYPE_CHECKING:
    from ndis.mechanisms.multiparty import Agreement

_AGREEMENT, _COMBINED = Path("agreement.json"), Path("combined.npz")


def init(
    *,
    rows: int,
    column: list[str],
    epsilon: float,
    delta: float,
    protects: str = "party",
    components: int | None = None,
    key: str | None = None,
    seed: str | None = None,
    out: Path = _AGREEMENT,
) -> Reply:
    """Write down what all parties agree on; no data are read.

    Parameters
    ----------
    rows : int
        The number of people, which becomes public.
    column : list of str
        PARTY:COLUMN:LOW:HIGH, such as clinic-a:age:0:120; repeat for every column.
    epsilon : float
        The guarantee's epsilon.
    delta : float
        The guarantee's delta.
    protects : str
        party: a person's attributes at one party; person: the whole record.
    components : int
        How many mixed rows to release; by default as many as are best.
    key : str
        The column by which all parties ordered the rows.
    seed : str
        Public seed of the signs, hexadecimal; by default a new one.
    out : path
        Where to write the agreement.
    """
    from ndis.mechanisms.multiparty import Agreement

    if out.exists():
        raise FileExistsError(
            f"Expected a new file, got {out}, which exists; choose another with --out."
        )
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
    return _told(agreement, out)


def show(*, agreement: Path = _AGREEMENT) -> Reply:
    """Show an agreement, its fingerprint and its guarantees.

    Parameters
    ----------
    agreement : path
        The file of `party init`.
    """
    from ndis.mechanisms.multiparty import Agreement

    return _told(Agreement.load(agreement), agreement)


def release(
    data: Path,
    *,
    party: str,
    ledger: str,
    agreement: Path = _AGREEMENT,
    secret_file: Path | None = None,
    out: Path | None = None,
    sign: Path | None = None,
) -> Reply:
    """Release one party's columns, mixed and with noise.

    Parameters
    ----------
    data : DATA
        The party's table, Parquet or CSV.
    party : str
        Whose columns to release.
    ledger : str
        The party's budget, of relation party; `ndis ledger init` starts one.
    agreement : path
        The file of `party init`.
    secret_file : path
        A secret of all parties, which hides the keys' order.
    out : path
        Where to write the release; by default PARTY.npz.
    """
    from ndis.mechanisms.multiparty import Agreement, release_party
    from ndis.release import NewFile

    loaded = Agreement.load(agreement)
    with (
        NewFile(out or Path(f"{party}.npz"), key=sign) as file,
        open_ledger(ledger) as budget,
    ):
        secret = None if secret_file is None else read_text(secret_file)
        made = release_party(loaded, party, data, secret=secret, ledger=budget, file=file)
    document = {
        "file": str(file.written),
        "digest": made.digest,
        "fingerprint": loaded.fingerprint,
        "guarantee": made.guarantee.to_dict() | {"loss": None},
        "joint_guarantee": loaded.joint_guarantee().to_dict() | {"loss": None},
    }
    return Reply(
        document,
        f"Agreement {loaded.fingerprint}",
        f"{file.written} is ready, digest {made.digest}.",
        f"For a person's attributes at {party}: {made.guarantee}",
        f"With all parties, for a person's whole record: {loaded.joint_guarantee()}",
        paid=f"the release is written to {file.written}",
    )


def combine(
    parts: list[Path],
    *,
    agreement: Path = _AGREEMENT,
    out: Path = _COMBINED,
    key: list[str] | None = None,
    sign: Path | None = None,
) -> Reply:
    """Check that the parties' files fit together and join them.

    Parameters
    ----------
    parts : PARTS...
        The files of all parties.
    agreement : path
        The file of `party init`.
    out : path
        Where to write all together.
    key : list of str
        PARTY=FILE: the public key (PEM) that signed a party's part; repeat.
    """
    from ndis.mechanisms import multiparty
    from ndis.release import NewFile, Release

    loaded = multiparty.Agreement.load(agreement)
    keys = {party: path for party, _, path in (word.partition("=") for word in key or ())}
    with NewFile(out, sign) as file:
        whole = multiparty.combine(loaded, [Release.load(path) for path in parts], keys)
        file.write(whole)
    digests = dict(whole.parameters["parts"])
    document = {
        "file": str(out),
        "digest": whole.digest,
        "parts": digests,
        "guarantee": whole.guarantee.to_dict() | {"loss": None},
    }
    title = f"{out} is ready; compare the digests with those that the parties saw"
    shown = Shown(title, ["party", "digest"], digests.items())
    return Reply(document, shown, *_promises(loaded))


def train(
    combined: Path = _COMBINED,
    *,
    label: str,
    feature: list[str] | None = None,
) -> Reply:
    """Fit a linear model to the combined release; costs no budget.

    Parameters
    ----------
    combined : COMBINED
        The file of `party combine`.
    label : str
        The column to predict; any will do.
    feature : list of str
        A column to predict from; repeat. All others if not given.
    """
    from ndis.mechanisms import multiparty
    from ndis.release import Release

    model = multiparty.train(Release.load(combined), label, feature or None)
    found = [*zip(model.features, model.coef, strict=True), ("intercept", model.intercept)]
    rows = [[name, f"{value:.6g}"] for name, value in found]
    shown = Shown(f"{label} from the other columns", ["column", "coefficient"], rows)
    return Reply(model.to_dict(), shown)


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


def _hexadecimal(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        raise ValueError(
            f"Expected --seed as a hexadecimal number, got {text!r}; leave it out for a new one."
        ) from None


def _told(agreement: "Agreement", path: Path) -> Reply:
    each = {party: agreement.guarantee(party).to_dict() for party in agreement.parties}
    document: dict[str, Any] = agreement.to_dict() | {
        "fingerprint": agreement.fingerprint,
        "guarantees": each,
        "joint_guarantee": agreement.joint_guarantee().to_dict(),
    }
    rows = [
        [party, name, f"{low:g}", f"{high:g}", f"{agreement.noise_scale(party) * half:.4g}"]
        for party, limits in agreement.parties.items()
        for name, (low, high) in limits.items()
        for half in [0.5 * (high - low)]
    ]
    title = f"{path}: {agreement.n_rows} people, {agreement.n_components} rows released"
    return Reply(
        document,
        Shown(title, ["party", "column", "low", "high", "noise"], rows),
        f"Fingerprint, to be compared by all parties: {agreement.fingerprint}",
        *_promises(agreement),
    )


def _promises(agreement: "Agreement") -> list[str]:
    return [
        *(f"For a person's attributes at {p}: {agreement.guarantee(p)}" for p in agreement.parties),
        f"For a person's whole record: {agreement.joint_guarantee()}",
    ]
