"""Other libraries' words for what is here: `ndis.interop.dp_accounting`, `ndis.interop.opendp`.

Needs the extra ``interop``.
"""
