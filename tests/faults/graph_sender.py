"""A program that sends mails through Graph: `python -m tests.faults.graph_sender COUNT`."""

import asyncio
import os
import sys

from homing.ports import Accepted
from homing.providers.graph.provider import GraphProvider
from homing.providers.graph.settings import settings_from
from tests.unit.graph.sending import send


async def main(count: int) -> None:
    provider = GraphProvider(settings_from(os.environ))
    answers = await asyncio.gather(*(send(provider) for _ in range(count)))
    await provider.close()
    assert all(isinstance(answer, Accepted) for answer in answers), answers


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
