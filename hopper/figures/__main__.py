"""Write `_static/palette.css` from the palette: `python -m hopper.figures`."""

from hopper.figures import palette
from hopper.paths import ROOT

(ROOT / "_static" / "palette.css").write_text(palette.stylesheet(), encoding="utf-8")
