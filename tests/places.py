"""Where the files of the project are."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
CRD: Final = ROOT / "crds/slipway.dev_slicejobs.yaml"
CRDS: Final = (CRD, ROOT / "crds/slipway.dev_slicejobprofiles.yaml")
