"""A shelf that counts what was put on it: the workflow at the end of a longer way."""

from tallystick import Bundle, Ctx, Record

app = Bundle("library")


class Filed(Record):
    shelf: str
    title: str


class Shelf(Record):
    titles: list[str]


@app.workflow(key="shelf", lifecycle="entity")
def shelves(state: Shelf | None, event: Filed, ctx: Ctx) -> Shelf:
    shelf = state or Shelf(titles=[])
    if event.title in shelf.titles:
        return shelf
    return shelf.replace(titles=[*shelf.titles, event.title])
