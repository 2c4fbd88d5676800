"""Hostile clients: whatever they send, the server gives one clear answer or closes, and keeps serving the others. PAWL names
the program. Run from the source tree's root."""
import json
import os
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import PAWL, Server  # noqa: E402

CHAT = "/v1/chat/completions"
with open(PAWL, "rb") as program:
    SANITIZED = b"__asan_init" in program.read()


class HostileHttp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server("--header-timeout", "1", "--write-timeout", "1", "--max-connections", "64")

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def tearDown(self):
        status, answer = self.s.post(CHAT, {"messages": [{"role": "user", "content": "What is 2 + 3?"}],
                                            "temperature": 0})
        self.assertEqual((status, answer["choices"][0]["message"]["content"]), (200, "5"))
        self.s.wait_idle()
        self.assertEqual(self.s.metric("pawl_pools_leaked_total"), 0)

    def raw(self, data, shut=False, seconds=20):
        """What comes back until the server closes or the time is over."""
        with socket.create_connection(("127.0.0.1", self.s.port), timeout=seconds) as c:
            try:
                c.sendall(data)
                if shut:
                    c.shutdown(socket.SHUT_WR)
                got = b""
                while True:
                    more = c.recv(65536)
                    if not more:
                        return got
                    got += more
            except (ConnectionError, TimeoutError):
                return got if "got" in dir() else b""

    def refused(self, body, words=""):
        status, answer = self.s.post(CHAT, body)
        self.assertEqual(status, 400, answer)
        self.assertIn(words, answer["error"]["message"])

    def test_bodies(self):
        message = b'{"messages":[{"role":"user","content":"%s"}]}'
        for body, words in ((b"", "empty"), (b"{", "not JSON"), (b"[]", "an array"), (b"5", "not JSON"), (b"nul", "JSON"),
                            (b'{"messages":[]} x', "JSON"), (b'{"a":1,"a":2}', "duplicate"), (b"\xff\xfe", "JSON"),
                            (message % b"\xff", "decode"), (message % b"\\ud83d", "Unicode"),
                            (message % b"\xed\xa0\x80", "decode"), (b'{"seed":18446744073709551615}', "big"),
                            (b'{"temperature":NaN}', "JSON"), (b'{"temperature":1e999}', "JSON"),
                            (b"\xef\xbb\xbf{}", "JSON")):
            status, answer = self.s.post(CHAT, body)
            self.assertEqual(status, 400, (body, answer))
            self.assertIn(words.lower(), answer["error"]["message"].lower(), body)

    def test_depth(self):
        for n in (65, 10000, 100000, 3000000):
            start = time.monotonic()
            self.refused(b'{"x":' + b"[" * n, "deep")
            self.refused(b'{"x":' + b'{"a":' * (n // 5), "deep" if n > 400 else "")
            if not SANITIZED:
                self.assertLess(time.monotonic() - start, 5)
        status, answer = self.s.post(CHAT, b'{"x":' + b"[" * 63 + b"]" * 63 + b"}")
        self.assertEqual(answer["error"]["param"], "messages")  # deep enough, and nothing else is there

    def test_null_character(self):
        status, _ = self.s.post(CHAT, {"messages": [{"role": "user", "content": "a\0b"}], "max_tokens": 1})
        self.assertEqual(status, 200)

    def test_huge_bodies(self):
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
        got = self.raw(head + b"Content-Length: 104857600\r\n\r\n" + b"x" * 100000)
        self.assertIn(b" 413 ", got.split(b"\r\n")[0] + b" ")
        chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        got = self.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 100)
        self.assertTrue(got == b"" or b" 413 " in got.split(b"\r\n")[0] + b" ", got[:80])  # or cut off while sending
        with open(f"/proc/{self.s.process.pid}/status") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
        if not SANITIZED:
            self.assertLess(peak, 1500 * 1024)

    def test_headers(self):
        get = b"GET /health HTTP/1.1\r\n"
        for data, code in ((get + b"\r\n", b"400"), (get + b"Host: a\r\nHost: b\r\n\r\n", b"400"),
                           (get + b"Host: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"400"),
                           (get + b"Host: x\r\nX: " + b"y" * 100000 + b"\r\n\r\n", b"400"),
                           (b"GARBAGE\r\n\r\n", b"400"), (b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n", b""),
                           (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", b"400"),
                           (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 9e9\r\n\r\n", b"400")):
            got = self.raw(data, shut=True, seconds=5)
            self.assertTrue(code in got.split(b"\r\n")[0] or got == b"", (data[:60], got[:80]))

    def test_slow_headers(self):
        """A header that comes drop by drop ends at the deadline, however lively the connection is."""
        with socket.create_connection(("127.0.0.1", self.s.port), timeout=20) as c:
            start = time.monotonic()
            try:
                c.sendall(b"GET /health HTTP/1.1\r\nX: ")
                while time.monotonic() - start < 15:
                    c.sendall(b"y")
                    time.sleep(0.05)
            except ConnectionError:
                pass
            self.assertLess(time.monotonic() - start, 10)

    def test_half_closed(self):
        body = b'{"prompt":"a","max_tokens":500,"ignore_eos":true}'
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        self.raw(head + body, shut=True)
        self.raw(head + body[:10], shut=True)

    def test_many_silent_connections(self):
        """More connections than are allowed: the others wait, and are served when the silent ones have been cut."""
        idle = [socket.create_connection(("127.0.0.1", self.s.port), timeout=20) for _ in range(80)]
        try:
            self.assertEqual(self.s.request("GET", "/health")[0], 200)
        finally:
            for c in idle:
                c.close()

    def test_slow_reader(self):
        """A client that does not read is dropped; what it asked for is cancelled."""
        before = self.s.metric("pawl_requests_dropped_total")
        body = json.dumps({"prompt": "Once", "max_tokens": 3500, "ignore_eos": True, "stream": True, "logprobs": 20,
                           "n": 8}).encode()
        with socket.socket() as c:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.connect(("127.0.0.1", self.s.port))
            c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            end = time.monotonic() + 100
            while self.s.metric("pawl_requests_dropped_total") == before:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.1)

    def test_huge_numbers(self):
        base = {"messages": [{"role": "user", "content": "x"}]}
        for extra in ({"n": 10**9}, {"n": 10**30}, {"top_logprobs": 10**9, "logprobs": True}, {"max_tokens": 10**18},
                      {"logit_bias": {str(i): 1 for i in range(2000)}}, {"stop": ["x" * 100000]}):
            status, answer = self.s.post(CHAT, {**base, **extra})
            self.assertEqual(status, 400, answer)

    def test_long_prompt(self):
        status, answer = self.s.post("/v1/completions", {"prompt": "word " * 400000})
        self.assertEqual((status, answer["error"]["param"]), (400, "prompt"))


if __name__ == "__main__":
    unittest.main()
