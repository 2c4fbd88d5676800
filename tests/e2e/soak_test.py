"""soak_test.py SECONDS: 64 clients of mixed kinds at once (greedy, sampled with a seed, stop strings, n = 4, whole answers,
and clients that leave at a random point of the answer). Every completed answer is, byte for byte, the one that the same
request gets alone; afterwards the pools are full, no descriptor is left open, and memory has not grown since the warm-up.
PAWL names the program. Run from the source tree's root."""
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import Server  # noqa: E402

CHAT, COMPLETE = "/v1/chat/completions", "/v1/completions"
CLIENTS = 64
SEED = 20
OPENINGS = ("Once upon a time there was a king", "The fox said", "In a small village", "A girl named Mara")
QUESTIONS = ("What is 17 + 25?", "Tell me a story", "Who are you?", "Write about the sea")
MEMORY_SLACK = 16 << 20  # bytes; the allocator keeps some of what the largest moment needed


def kinds(s):
    """The requests: path and body. The stop strings are taken from an answer, so that they are met."""
    out = []
    for i, text in enumerate(OPENINGS):
        size = 16 + 12 * i
        greedy = {"prompt": text, "temperature": 0, "max_tokens": size}
        out.append((COMPLETE, greedy))
        whole = s.post(COMPLETE, greedy)[1]["choices"][0]["text"]
        out.append((COMPLETE, {**greedy, "stop": [whole[len(whole) // 2:][:4], "never met"]}))
        out.append((COMPLETE, {"prompt": text, "temperature": 0.9, "seed": i, "max_tokens": size, "ignore_eos": True}))
        out.append((COMPLETE, {"prompt": text, "temperature": 1, "top_k": 30, "top_p": 0.9, "seed": 100 + i,
                               "repetition_penalty": 1.2, "max_tokens": size}))
        out.append((COMPLETE, {"prompt": text, "temperature": 0.8, "seed": 200 + i, "n": 4, "max_tokens": 12}))
    for i, text in enumerate(QUESTIONS):
        messages = [{"role": "user", "content": text}]
        out.append((CHAT, {"messages": messages, "temperature": 0, "max_tokens": 40}))
        out.append((CHAT, {"messages": messages, "temperature": 0.7, "seed": i, "max_tokens": 30, "logprobs": True,
                           "top_logprobs": 2}))
        out.append((CHAT, {"messages": messages, "temperature": 0, "max_tokens": 40,
                           "chat_template_kwargs": {"enable_thinking": True}}))
    return out


def whole(s, path, body):
    """What `Server.stream` gives, from an answer in one piece."""
    status, answer = s.post(path, body)
    assert status == 200, answer
    out = {}
    for c in answer["choices"]:
        m = c.get("message", {})
        out[c["index"]] = {"text": m.get("content") or c.get("text") or "", "reasoning": m.get("reasoning_content") or "",
                           "finish": c["finish_reason"]}
    return out


def leave(s, path, body, wanted):
    """Reads at most that many bytes of a long stream and goes away."""
    c = s.connect()
    try:
        c.request("POST", path, json.dumps({**body, "stream": True, "max_tokens": 2000, "ignore_eos": True}),
                  {"Content-Type": "application/json"})
        if wanted:
            c.getresponse().read(wanted)
    finally:
        c.close()


class Clients:
    """CLIENTS threads that send requests until a moment; the first error ends them all."""

    def __init__(self, s, alone):
        self.s, self.alone = s, alone
        self.lock = threading.Lock()
        self.completed = self.left = 0
        self.error = None

    def one(self, number, end):
        rng = random.Random(SEED * 1000 + number)
        try:
            while time.monotonic() < end and not self.error:
                (path, body), want = rng.choice(self.alone)
                if rng.random() < 0.2:
                    leave(self.s, path, body, rng.choice((0, rng.randrange(1, 9000))))
                    with self.lock:
                        self.left += 1
                    continue
                got = (self.s.stream if rng.random() < 0.8 else lambda *a: whole(self.s, *a))(path, body)
                assert got == want, f"{path} {body}\n  got  {got}\n  want {want}"
                with self.lock:
                    self.completed += 1
        except Exception as e:  # reported by run()
            self.error = self.error or e

    def run(self, seconds):
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self.one, args=(i, end)) for i in range(CLIENTS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if self.error:
            raise self.error


def idle(s):
    """Resident bytes and open descriptors of the server without clients, its pools full."""
    s.wait_idle()
    m = {k.split("{")[0]: v for k, v in s.metrics().items()}
    assert m["pawl_pools_checked_total"] > 0
    assert m["pawl_pools_leaked_total"] == 0, m
    assert m["pawl_kv_pages_used"] == 0, m
    assert m["pawl_requests_failed_total"] == 0, m
    proc = f"/proc/{s.process.pid}"
    end = time.monotonic() + 10  # the metrics' own connections close a moment after their answers
    while (count := len(os.listdir(proc + "/fd"))) > s.descriptors and time.monotonic() < end:
        time.sleep(0.05)
    assert count <= s.descriptors, f"{count} descriptors are open; before the first request it was {s.descriptors}"
    with open(proc + "/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(seconds):
    s = Server("--queue", "1000")
    try:
        s.descriptors = len(os.listdir(f"/proc/{s.process.pid}/fd"))
        alone = [(k, s.stream(*k)) for k in kinds(s)]
        clients = Clients(s, alone)
        clients.run(seconds * 0.3)  # buffers and caches reach their sizes
        before = idle(s)
        clients.run(seconds * 0.6)
        after = idle(s)
        assert after - before <= MEMORY_SLACK, f"{after - before} bytes more are resident than after the warm-up"
        for (path, body), want in alone:
            assert whole(s, path, body) == want, (path, body)
        assert clients.completed >= CLIENTS and clients.left > 0, "too slow to show anything"
        print(f"{clients.completed} answers as when alone, {clients.left} left early; resident {before >> 20} MiB after the "
              f"warm-up, {after >> 20} MiB at the end")
    finally:
        s.close()


main(float(sys.argv[1]))
