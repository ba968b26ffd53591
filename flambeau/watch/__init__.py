"""The watch: shows a training program while it runs, in a page of this machine, with no change to the program.

`flambeau run --watch script.py` prints the address of the page, `--watch=file.html` writes one after the run, and `flambeau watch runs/`
shows and compares runs that were kept. A run is one file of JSON lines (`store.py`), which is also all that the page reads.
"""
