"""Record the model calls of a program: `import relight.auto` is all that it needs.

The OpenAI, Anthropic, Google GenAI and LiteLLM clients are recorded, and whatever else sends their
formats through httpx, httpx2 or aiohttp. The program sees the same objects and errors as before.
"""

from relight.intake.auto.hooks import activate
from relight.intake.auto.scope import AutoSession as AutoSession
from relight.intake.auto.scope import session as session

activate()
