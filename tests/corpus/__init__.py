"""Real replies of the pinned vLLM, byte for byte, with the requests that they answer.

One JSON file a scenario, made by `python -m tests.corpus.record` and never by hand. The fake replays them; the
contract test asks the real server again and compares shapes, so that a red line means that vLLM changed.
"""
