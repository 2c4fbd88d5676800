"""A pawl server for tests: starts it on a free port, asks it, stops it. Only Python's standard library."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

PAWL = os.environ.get("PAWL") or sys.exit("PAWL does not name the program")
DEMO = "models/tale-moe-fp8"
ENV = {k: v for k, v in os.environ.items() if not k.startswith("PAWL_")}


class Server:
    def __init__(self, *args, model=DEMO, env=None):
        self.log = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen([PAWL, "serve", model, "--port", "0", *args], stderr=self.log, env=env or ENV,
                                        stdout=subprocess.DEVNULL)
        self.port = None
        while self.port is None:
            if self.process.poll() is not None:
                text = self.output()
                self.log.close()
                raise RuntimeError("the server has ended: " + text)
            found = re.search(r"at http://\S+:(\d+)", self.output())
            if found:
                self.port = int(found.group(1))
            else:
                time.sleep(0.02)

    def output(self):
        return os.pread(self.log.fileno(), 1 << 24, 0).decode()

    def stop(self, sig=signal.SIGTERM):
        """Its exit code."""
        self.process.send_signal(sig)
        return self.process.wait(60)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def request(self, method, path, body=None, headers=None):
        """Status, headers, bytes."""
        c = self.connect()
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            c.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            r = c.getresponse()
            return r.status, dict((k.lower(), v) for k, v in r.getheaders()), r.read()
        finally:
            c.close()

    def post(self, path, body, headers=None):
        """Status and the answer's JSON."""
        status, _, data = self.request("POST", path, body, headers)
        return status, json.loads(data)

    def events(self, path, body, headers=None):
        """The JSON of each event of a stream; checks that it ends with [DONE]."""
        c = self.connect()
        try:
            c.request("POST", path, json.dumps({**body, "stream": True}),
                      {"Content-Type": "application/json", **(headers or {})})
            r = c.getresponse()
            text = r.read().decode()
            assert r.status == 200, text
            assert r.getheader("Content-Type").startswith("text/event-stream")
        finally:
            c.close()
        data = [e[6:] for e in text.split("\n\n") if e.startswith("data: ")]
        assert data[-1] == "[DONE]", text[-300:]
        return [json.loads(d) for d in data[:-1]]

    def stream(self, path, body, headers=None):
        """Text, reasoning and finish reason of each choice, by index."""
        out = {}
        for e in self.events(path, body, headers):
            for c in e["choices"]:
                o = out.setdefault(c["index"], {"text": "", "reasoning": "", "finish": None})
                delta = c.get("delta", {})
                o["text"] += delta.get("content") or c.get("text") or ""
                o["reasoning"] += delta.get("reasoning_content") or ""
                o["finish"] = c["finish_reason"] or o["finish"]
        return out

    def metrics(self):
        """Name with labels -> value."""
        text = self.request("GET", "/metrics")[2].decode()
        return {l.rsplit(" ", 1)[0]: float(l.rsplit(" ", 1)[1]) for l in text.splitlines() if not l.startswith("#")}

    def metric(self, name):
        """The sum over all labels."""
        return sum(v for k, v in self.metrics().items() if k.split("{")[0] == name)

    def wait_idle(self):
        """Until nothing runs; then whatever was taken must have been given back."""
        end = time.monotonic() + 60
        while self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting") > 0:
            assert time.monotonic() < end, "the engine does not become idle"
            time.sleep(0.02)
