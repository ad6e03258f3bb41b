"""`python -m tests.stories`: tells every story anew, with what the operator writes and does now."""

from tests.stories.reader import tell
from tests.stories.test_stories import STORIES

for path in STORIES:
    path.write_text(tell(path.read_text()))
