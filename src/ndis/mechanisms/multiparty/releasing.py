"""One party's part: mix its rows, add its noise, publish; and the parts put together."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.guarantee import Guarantee
from ndis.mechanisms.multiparty.agreement import Agreement
from ndis.mechanisms.publish import ask, publish
from ndis.randomness import RandomState, add_noise, sign_product
from ndis.release import NewFile, Release, Shapes
from ndis.tables import Rows, Table
from ndis.tables.arrays import on_host

if TYPE_CHECKING:
    import pyarrow as pa

    from ndis.ledger import Ledger

PART = "MultiPartyPart"
WHOLE = "MultiPartyRegression"


@dataclass(frozen=True)
class Mixed:
    """What a party computes before any noise; only the owner may see it.

    Attributes
    ----------
    rows : ndarray of shape (n_components, d)
        Sums of entries with signs: exact integers, `units` of them to a half-width.
    units : float
    ones : ndarray of shape (n_components,)
        The sums of a column of ones, which anybody can compute from the agreement.
    key_order : str or None
        Keyed hash of the keys in order.
    """

    rows: FloatArray
    units: float
    ones: FloatArray
    key_order: str | None


def mix(agreement: Agreement, party: str, source: Any, secret: str | None = None) -> Mixed:
    """Read a party's table once and mix its rows; the matrix of signs is never held.

    Entries are integers of at most 2^20, and there are at most 2^32 rows: doubles hold all sums.
    The first one is without signs.
    """
    recipe, key = agreement.recipe(party), agreement.key
    more = () if key is None else (key,)
    table = Table.open(source, [*recipe.columns, *more]).with_rows(Rows(recipe))
    if key is not None and table.nameless:
        raise ValueError(
            f"Expected a table with the key {key!r}, got an array; hand over a data frame."
        )
    keys = _Keys(agreement, secret)
    total = np.zeros((agreement.n_components, len(recipe.names) + 1))
    n_rows = 0
    for batch in table.batches(*more, what=f"Mixing the rows of {party}"):
        keys.add(batch)
        for block in table.rows.blocks(batch):
            entries = on_host(block.dense).T
            data = np.column_stack([entries, np.ones(len(entries))])
            total[0] += data.sum(axis=0)
            total[1:] += sign_product(agreement.seed, len(total) - 1, data, n_rows)
            n_rows += len(data)
            if n_rows > agreement.n_rows:
                raise _wrong_count(agreement)
    if n_rows != agreement.n_rows:
        raise _wrong_count(agreement)
    return Mixed(total[:, :-1], recipe.units, total[:, -1], keys.digest())


def release_party(
    agreement: Agreement,
    party: str,
    source: Any,
    *,
    secret: str | None = None,
    random_state: RandomState = None,
    ledger: Ledger | None = None,
    file: NewFile | None = None,
) -> Release:
    """Publish one party's columns, mixed and with noise.

    Parameters
    ----------
    agreement : Agreement
        What all parties agreed on.
    party : str
        Whose columns.
    source : table
        Anything that `ndis.tables.Table.open` opens, one row for each person, in the common order.
    secret : str, optional
        Known to all parties and to nobody else: it hides the order of the keys from readers.
    random_state : int, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The party's budget, for the relation "party".
    file : NewFile, optional
        Where the release goes; it is made before anything is paid.

    Returns
    -------
    Release

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms.multiparty import Agreement, release_party
    >>> agreement = Agreement(500, {"a": {"x0": (0, 1)}}, epsilon=1.0, delta=1e-6)
    >>> release_party(agreement, "a", np.random.default_rng(0).random((500, 1))).guarantee.epsilon
    1.0
    """
    ask(agreement.guarantee(party), ledger, random_state)
    mixed = mix(agreement, party, source, secret)
    return publish(
        lambda rng: noisy(agreement, party, mixed, rng),
        agreement.guarantee(party),
        PART,
        part_parameters(agreement, party, mixed.key_order),
        shapes(agreement, agreement.party_columns(party)),
        random_state=random_state,
        ledger=ledger,
        file=file,
    )


def shapes(agreement: Agreement, columns: Sequence[str]) -> Shapes:
    """The arrays of a release of these columns."""
    k = agreement.n_components
    return {"rows": (k, len(columns)), "ones": (k,)}


def combine(
    agreement: Agreement, releases: Iterable[Release], keys: Mapping[str, Any] | None = None
) -> Release:
    """Put the parts of all parties together, after checking that they fit.

    Parameters
    ----------
    agreement : Agreement
        One's own copy.
    releases : iterable of Release
        One of each party.
    keys : mapping of str to key, optional
        Public keys by party, as in `Release.signed_by`: these parties' parts must carry their
        signatures. Without its key a part that was forged as a whole is not recognised.

    Returns
    -------
    Release
        With the joint guarantee for a person's whole record.
    """
    parts: dict[str, Release] = {}
    for party in keys or {}:
        _validate.one_of("keys", party, agreement.parties)
    for part in releases:
        party = _check_part(agreement, part)
        if keys and party in keys and not part.signed_by(keys[party]):
            raise ValueError(
                f"Expected a file signed by the key of {party!r}, got one that is not; "
                "ask that party for its file again."
            )
        if party in parts:
            raise ValueError(
                f"Expected one file of each party, got two of {party!r}; leave one out."
            )
        parts[party] = part
    for party in agreement.parties:
        if party not in parts:
            raise ValueError(f"Expected a file of every party, got none of {party!r}; ask for it.")
    first = next(iter(agreement.parties))
    for party, part in parts.items():
        if part.parameters["key_order"] != parts[first].parameters["key_order"]:
            raise ValueError(
                f"Expected rows in one order of keys, got different ones from {first!r} and "
                f"{party!r}; align the rows by the shared key (and share one secret)."
            )
        if not np.array_equal(part.arrays["ones"], parts[first].arrays["ones"]):
            raise ValueError(
                f"Expected one matrix of signs, got different ones from {first!r} and {party!r}; "
                "use one version of ndis."
            )
    whole = np.concatenate([parts[party].arrays["rows"] for party in agreement.parties], axis=1)
    private = all(part.guarantee.private for part in parts.values())
    return Release(
        {"rows": whole, "ones": parts[first].arrays["ones"]},
        replace(agreement.joint_guarantee(), private=private),
        WHOLE,
        whole_parameters(agreement)
        | {"parts": {party: parts[party].digest for party in agreement.parties}},
    )


def part_parameters(agreement: Agreement, party: str, key_order: str | None) -> dict[str, Any]:
    """What the release of one party says about itself."""
    return {
        "agreement": agreement.to_dict(),
        "fingerprint": agreement.fingerprint,
        "party": party,
        "columns": list(agreement.party_columns(party)),
        "key_order": key_order,
    }


def whole_parameters(agreement: Agreement) -> dict[str, Any]:
    """What the release of all parties together says about itself."""
    return {
        "agreement": agreement.to_dict(),
        "fingerprint": agreement.fingerprint,
        "per_party": {party: str(agreement.guarantee(party)) for party in agreement.parties},
    }


def _array_noise(agreement: Agreement, party: str) -> float:
    """The noise in units of the released sums, which are not divided by sqrt(n_components)."""
    return math.sqrt(agreement.n_components) * agreement.noise_scale(party)


def noisy(
    agreement: Agreement, party: str, mixed: Mixed, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """What a party releases."""
    rows = add_noise(mixed.rows, mixed.units * _array_noise(agreement, party), rng)
    return {"rows": rows / mixed.units, "ones": mixed.ones}


def _wrong_count(agreement: Agreement) -> ValueError:
    return ValueError(
        f"Expected {agreement.n_rows} rows as agreed, got another number; "
        "keep exactly the people on whom the parties agreed."
    )


# -- keys ------------------------------------------------------------------------------------


class _Keys:
    """A keyed hash of the keys in order.

    The key of the hash is the agreement's fingerprint, so hashes of different agreements cannot
    be compared. Who knows all keys but a few can still try these; only a `secret` prevents that.
    """

    def __init__(self, agreement: Agreement, secret: str | None) -> None:
        self.name = agreement.key
        fingerprint = bytes.fromhex(agreement.fingerprint)
        self.key = hmac.new(fingerprint, (secret or "").encode(), hashlib.sha256).digest()
        self.hash = hmac.new(self.key, digestmod=hashlib.sha256)
        self.chunks: list[pa.Array] = []

    def add(self, batch: Any) -> None:
        """Take note of the keys of a batch."""
        if self.name is None:
            return
        column = _key_text(self.name, batch.column(self.name))
        self.chunks.append(column)
        for text in column.to_pylist():
            content = text.encode()
            self.hash.update(len(content).to_bytes(8, "little") + content)

    def digest(self) -> str | None:
        """The hash, after checking that every key stands for one person."""
        if self.name is None:
            return None
        import pyarrow as pa
        import pyarrow.compute as pc

        keys = pa.chunked_array(self.chunks, type=pa.large_string())
        if pc.count_distinct(keys).as_py() < len(keys):
            raise ValueError(
                f"Expected one row for each person, got a repeated value in the key {self.name!r}; "
                "merge each person's rows first."
            )
        return self.hash.hexdigest()


def _key_text(name: str, column: Any) -> pa.Array:
    """Keys as text, the same whether a file stores them as integers, floats or strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, np.ndarray):  # objects, each as it is written
        column = pa.array([key if key is None else str(key) for key in column], pa.large_string())
    if column.null_count:
        raise ValueError(f"Column {name!r} has missing values; give every row its key.")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        if pa.types.is_floating(column.type):
            column = column.cast(pa.int64())  # refuses fractions and what a double cannot count
        text = column.cast(pa.large_string())
        return pc.replace_substring_regex(text, r"^(-?\d+)\.0*$", r"\1")
    except pa.ArrowException:
        raise ValueError(
            f"Expected keys in column {name!r} that are integers or text, got {column.type}; "
            "write them as text."
        ) from None


# -- checks ----------------------------------------------------------------------------------


def _check_part(agreement: Agreement, part: Release) -> str:
    """Refuse a file that is not a party's part of this agreement; return whose it is."""
    known = part.parameters
    if part.mechanism != PART:
        raise ValueError(
            f"Expected a file written by `ndis party release`, got one of {part.mechanism}; "
            "pass the parts of the parties."
        )
    party = str(known.get("party"))
    own, found = agreement.fingerprint, known.get("fingerprint")
    if found != own or known.get("agreement") != agreement.to_dict():
        raise ValueError(
            f"Expected public parameters with fingerprint {own[:16]}, got {str(found)[:16]} from "
            f"{party!r}; all parties must use one agreement."
        )
    columns = list(agreement.party_columns(party))
    rows, ones = part.arrays.get("rows"), part.arrays.get("ones")
    shape = (agreement.n_components, len(columns))
    if known.get("columns") != columns or rows is None or rows.shape != shape:
        raise ValueError(
            f"Expected {shape[0]} rows of the columns {', '.join(columns)} from {party!r}, "
            "got something else; ask that party for its file again."
        )
    if ones is None or ones.shape != shape[:1] or not _same(part.guarantee, agreement, party):
        raise ValueError(
            f"Expected the guarantee that was agreed on from {party!r}, got another; "
            "ask that party for its file again."
        )
    if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(ones))):
        raise ValueError(
            f"Expected numbers from {party!r}, got a NaN or an infinite one; "
            "ask that party for its file again."
        )
    return party


def _same(guarantee: Guarantee, agreement: Agreement, party: str) -> bool:
    """Whether a guarantee is the agreed one; machines may differ in the last bits of an epsilon."""
    agreed = agreement.guarantee(party)
    return math.isclose(guarantee.epsilon, agreed.epsilon, rel_tol=1e-9) and (
        (guarantee.delta, guarantee.relation, guarantee.basis)
        == (agreed.delta, agreed.relation, agreed.basis)
    )
