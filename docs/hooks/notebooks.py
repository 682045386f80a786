"""A hook of mkdocs: each notebook is a page, with the outputs that are stored in it."""

import json
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File


def page(text: str, name: str) -> str:
    """A notebook as Markdown."""
    parts: list[str] = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            title = source.splitlines()[0].lstrip("# ")
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_shown(output, title) for output in cell["outputs"]]
    head, *rest = parts
    return "\n\n".join([head, f"[Download this notebook]({name}).", *rest, ""])


def _shown(output: dict[str, Any], title: str) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        return f'<img class="output" alt="{escape(title)}" src="data:image/png;base64,{picture}">'
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"])}</div>'
    text = "".join(data.get("text/plain") or output["text"]).rstrip()
    return f'<pre class="output"><code>{escape(text)}</code></pre>'


def on_files(files: Any, config: Any) -> Any:
    """Make the pages."""
    for notebook in [each for each in files if each.src_uri.endswith(".ipynb")]:
        path = Path(notebook.src_uri)
        content = page(Path(notebook.abs_src_path).read_text(), path.name)
        files.append(File.generated(config, str(path.with_suffix(".md")), content=content))
    return files
