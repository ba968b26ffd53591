"""How a running program is observed without a change to it: functions that stand in the place of others, and whose line it is."""
