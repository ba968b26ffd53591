"""The mistakes that the doctor knows, by their fixed ids: one table for findings, `--list`, `--explain` and the documentation."""

from __future__ import annotations

from . import data, graph, losses, models, numbers, saving, steps
from .lesson import ERROR, WARNING, Lesson

__all__ = ["ERROR", "LESSONS", "WARNING", "Lesson"]

LESSONS: dict[str, Lesson] = {
    lesson.id: lesson for family in (steps, losses, models, graph, numbers, data, saving) for lesson in family.LESSONS
}
