"""Queue disciplines as objects: a class for each name of `narrows list queues`, a keyword for each
of its parameters.

>>> import narrows as nw
>>> guest = nw.queue.HtbClass(id="1:20", rate="2Mbit", queue=nw.queue.FqCodel(),
...     match={"flow": "guest"})
>>> nw.queue.Htb(classes=[guest]).tree()["classes"][0]["queue"]
{'kind': 'fq_codel'}
"""

from __future__ import annotations

from narrows.runs import schema


def __getattr__(name: str) -> object:
    return schema.attribute("queue", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *schema.tables("queue")})
