"""Attributes that are found out when they are first asked for."""

from __future__ import annotations

import functools
from typing import Any


class found_once(functools.cached_property[Any]):
    """`functools.cached_property` as of Python 3.12, without a lock. Before that it has one for all objects of the class, held while an
    attribute is found out: a child that is forked meanwhile would wait for it for ever. Of threads that find it out at once all get what the first found.

    >>> class Circle:
    ...     radius = 2.0
    ...
    ...     @found_once
    ...     def area(self):
    ...         return 3.14159 * self.radius**2
    >>> Circle().area
    12.56636
    """

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return vars(instance).setdefault(self.attrname, self.func(instance))
