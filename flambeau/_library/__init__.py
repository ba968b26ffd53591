"""Operators that programs define: their schemas, their implementations and how calls find them."""
