"""The text of a module's functions for named objects, as VeOmni has them. One object is current."""

GETTER = '''

_current: {initialize} | None = None
_registered: dict[str, {initialize}] = {{}}


def {maker}(
{parameters}
) -> {initialize}:
    """Makes the `{initialize}` of this name, which becomes the current one if there is none.

    Without a rank the first one of a name stays."""
    settings = dict(locals())
    if settings.pop("name") in _registered and rank is None:
        warnings.warn(f"there is a {initialize} {{name!r}} already, which stays", stacklevel=2)
        return _registered[name]
    made = _registered[name] = {initialize}(**settings)
    if _current is None or rank is not None:
        set_{object}(made)
    return made


def {getter}() -> {initialize}:
    """The current `{initialize}`; raises UsageError where there is none."""
    if _current is None:
        raise UsageError("there is no {initialize} yet; call {maker} first")
    return _current


def {getter}_by_name(name: str) -> {initialize}:
    """The `{initialize}` that `{maker}` has made under this name."""
    if name not in _registered:
        text = f"Parallel state {{name!r}} is not registered. Registered names: {{sorted(_registered)}}"
        raise original(ValueError, text, "unknown")
    return _registered[name]


def set_{object}(parallel_state: {initialize} | None) -> {initialize} | None:
    """Makes this the current `{initialize}`, and returns the one before."""
    global _current
    before, _current = _current, parallel_state
    return before


@contextlib.contextmanager
def use_{object}(parallel_state: str | {initialize}) -> Iterator[None]:
    """Makes this `{initialize}`, or the one of this name, the current one within a context."""
    before = set_{object}({getter}_by_name(parallel_state) if isinstance(parallel_state, str) else parallel_state)
    try:
        yield
    finally:
        set_{object}(before)


def is_{object}_initialized() -> bool:
    """True where there is a current `{initialize}`."""
    return _current is not None


def clear_{object}() -> None:
    """Forgets every `{initialize}`."""
    set_{object}(None)
    _registered.clear()
'''
