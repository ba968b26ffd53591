"""Random numbers on the CPU: the stream of words with what becomes of them (`stream`), and samplers that reject."""
