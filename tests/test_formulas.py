"""The site's formulas: what is raised and lowered, and what is left alone."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parent.parent / "docs/hooks/maths.py"
SPEC = importlib.util.spec_from_file_location("maths", PATH)
maths = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(maths)


@pytest.mark.parametrize(
    ("text", "shown"),
    {
        "p ≤ e^epsilon q": "p ≤ e<sup>epsilon</sup> q",
        "e^{s(l−eps)}": "e<sup>s(l−eps)</sup>",
        "S1^(-1/2) v": "S1<sup>-1/2</sup> v",
        r"alpha\^2": "alpha<sup>2</sup>",
        "10^−6.3.": "10<sup>−6.3</sup>.",
        "x_{j−1} and d_j": "x<sub>j−1</sub> and d<sub>j</sub>",
        "Σ a_i z_i²": "Σ a<sub>i</sub> z<sub>i</sub>²",
        "sup_S P(S)": "sup<sub>S</sub> P(S)",
        "(x_j − x)_+": "(x<sub>j</sub> − x)<sub>+</sub>",
        "e^{l_j}": "e<sup>l<sub>j</sub></sup>",
        "data_norm and n_components": "data_norm and n_components",
        "<code>x_j^2</code> x_j": "<code>x_j^2</code> x<sub>j</sub>",
        "<pre><code>e^x</code> a_b</pre>": "<pre><code>e^x</code> a_b</pre>",
        '<a href="x_j^2">y</a>': '<a href="x_j^2">y</a>',
    }.items(),
)
def test_formulas(text: str, shown: str) -> None:
    assert maths.on_page_content(text) == shown
