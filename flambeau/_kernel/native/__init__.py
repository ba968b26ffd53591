"""Calls without the interpreter: `site` has the functions that programs call, `entry` finds the plan of a call and carries it out (`views`
and `device_entry` have other kinds of plans), `direct` calls one loop, `runner` a stretch of a compiled program.
"""
