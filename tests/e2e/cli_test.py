"""The pawl program from outside: verbs, exit codes, what goes to which stream, signals, bad input.

PAWL names the program. Run from the source tree's root."""
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(__file__))
import schema

PAWL = os.environ.get("PAWL") or sys.exit("cli_test: PAWL does not name the program")
DEMO = "models/tale-moe-fp8"
TINY = ["tests/models/tiny-qwen3_5", "tests/models/tiny-qwen3_5_moe", "tests/models/tiny-qwen3_5_moe_vl"]
PROMPT = "Once upon a time"
GREEDY = ["--temp", "0"]
ENV = {k: v for k, v in os.environ.items() if not k.startswith("PAWL_") or k == "PAWL_BUILD"}


def pawl(*args, stdin=b"", env=None):
    return subprocess.run([PAWL, *args], input=stdin, capture_output=True, timeout=250, env={**ENV, **(env or {})})


class Cli(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="pawl-cli-")
        self.addCleanup(shutil.rmtree, self.tmp)

    def file(self, name, data):
        path = os.path.join(self.tmp, name)
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return path

    def ok(self, *args, **kw):
        r = pawl(*args, **kw)
        self.assertEqual(r.returncode, 0, r.stderr.decode(errors="replace"))
        return r

    def fails(self, code, words, *args, **kw):
        """Exit code, one clear message that holds the words, and nothing on stdout."""
        r = pawl(*args, **kw)
        text = r.stderr.decode(errors="replace")
        self.assertEqual(r.returncode, code, text)
        for w in [words] if isinstance(words, str) else words:
            self.assertIn(w, text)
        self.assertTrue(text.startswith("pawl"), text)
        self.assertEqual(r.stdout, b"")
        return text

    def json(self, name, *args, **kw):
        r = self.ok(*args, **kw)
        j = json.loads(r.stdout)  # the whole of stdout is one object
        schema.check(j, schema.load(name))
        return j


class Usage(Cli):
    VERBS = "run chat score explain inspect tokenize detokenize render synth".split()

    def test_help_teaches(self):
        r = self.ok("--help")
        for v in self.VERBS:
            self.assertIn(v.encode(), r.stdout)
            h = self.ok("help", v)
            self.assertEqual(h.stderr, b"")
            self.assertIn(b"Examples:", h.stdout)
            self.assertIn(f"pawl {v} ".encode(), h.stdout)
            self.assertEqual(h.stdout, self.ok(v, "--help").stdout)
        self.assertRegex(self.ok("--version").stdout.decode(), r"^pawl \d+\.\d+\.\d+\n$")

    def test_wrong_usage_is_2_with_a_hint(self):
        r = pawl()
        self.assertEqual((r.returncode, r.stdout), (2, b""))
        self.assertIn(b"Usage", r.stderr)
        self.fails(2, ['"rnu"', 'did you mean "run"', "--help"], "rnu")
        self.fails(2, ['"frobnicate"', "--help"], "frobnicate")
        self.fails(2, "verb comes first", "--threads")
        self.fails(2, "no verb", "help", "nothing")
        for v in self.VERBS:
            self.fails(2, ["--bogus", f"pawl {v} --help"], v, "--bogus")
            self.fails(2, f"pawl {v} --help", v)

    def test_values_of_options(self):
        for args, words in [
            (["--temp", "warm"], ["--temp", '"warm"']),
            (["--temp", "-1"], "--temp"),
            (["--temp", "nan"], "--temp"),
            (["--top-k", "1.5"], "--top-k"),
            (["--top-p", "2"], "--top-p"),
            (["--min-p", "-0.1"], "--min-p"),
            (["-n", "99999999999999999999"], "-n"),
            (["--seed", "-1"], "--seed"),
            (["--seed", "18446744073709551616"], "--seed"),
            (["--draft", "9"], "--draft"),
            (["--draft", "many"], "--draft"),
            (["--logit-bias", "5"], "ID=B"),
            (["--logit-bias", "x=5"], "--logit-bias"),
            (["--stop", ""], "--stop"),
            (["--threads", "0"], "--threads"),
            (["--kernel", "linear"], "OP=ID"),
            (["--isa", "sse"], "avx512"),
            (["--draft-isa", "sse"], "--draft-isa"),
            (["-p", "again"], "once"),
            (["--system", "x"], "--chat"),
            (["--ids", "--chat"], "exclude"),
            (["stray"], '"stray"'),
        ]:
            with self.subTest(args=args):
                self.fails(2, words, "run", DEMO, "-p", "x", *args)
        self.fails(2, "no prompt", "run", DEMO)
        self.fails(2, "--ids-file", "score", DEMO)
        self.fails(2, "--out", "score", DEMO, "-p", "x", "--mtp")
        self.fails(2, "messages", "render", DEMO)
        self.fails(2, "--format", "synth", "a", "b", "--format", "int3")


class Run(Cli):
    def test_text_alone_on_stdout(self):
        plain = self.ok("run", DEMO, "-p", PROMPT, "-n", "24", *GREEDY)
        self.assertTrue(plain.stdout)
        self.assertEqual(plain.stderr, b"")
        noisy = self.ok("run", DEMO, "-p", PROMPT, "-n", "24", *GREEDY, "--stats", env={"PAWL_LOG": "debug"})
        self.assertEqual(noisy.stdout, plain.stdout)
        self.assertIn(b"tokens/s", noisy.stderr)
        self.assertNotIn(b"\033", noisy.stderr)
        path = self.file("prompt.txt", PROMPT)
        self.assertEqual(self.ok("run", DEMO, "-f", path, "-n", "24", *GREEDY).stdout, plain.stdout)
        for dash in (["-"], ["-f", "-"]):
            r = self.ok("run", DEMO, *dash, "-n", "24", *GREEDY, stdin=PROMPT.encode())
            self.assertEqual(r.stdout, plain.stdout)

    def test_json_and_seed(self):
        args = ["run", DEMO, "-p", PROMPT, "-n", "24", "--temp", "0.9", "--top-p", "0.95", "--json"]
        j = self.json("pawl.run/1", *args, "--seed", "7", "--draft", "0")
        self.assertEqual((j["seed"], j["finish"], len(j["ids"])), (7, "length", 24))
        self.assertEqual(j["stats"]["drafted"], 0)
        self.assertIsNone(j["stats"]["acceptance"])
        d = self.json("pawl.run/1", *args, "--seed", "7", "--draft", "3", "--stats")
        self.assertEqual((d["text"], d["ids"]), (j["text"], j["ids"]))
        s = d["stats"]
        self.assertGreater(s["drafted"], 0)
        self.assertEqual(s["generated_tokens"], 24)
        self.assertEqual(sum(p["drafted"] for p in s["by_place"]), s["drafted"])
        self.assertEqual(sum(p["accepted"] for p in s["by_place"]), s["accepted"])
        self.assertLessEqual(len(s["by_place"]), 3)
        text = self.ok("run", DEMO, "-p", PROMPT, "-n", "24", "--temp", "0.9", "--top-p", "0.95", "--seed", "7").stdout
        self.assertEqual(text.decode(), j["text"])
        big = self.json("pawl.run/1", *args, "--seed", "18446744073709551615")
        self.assertEqual(big["seed"], "18446744073709551615")
        a, b = self.json("pawl.run/1", *args), self.json("pawl.run/1", *args)
        self.assertNotEqual(a["seed"], b["seed"])
        again = self.json("pawl.run/1", *args, "--seed", str(a["seed"]))
        self.assertEqual(again["ids"], a["ids"])

    def test_chat_message(self):
        args = ["run", DEMO, "--chat", "-p", "What is 2 + 3?", "-n", "40", *GREEDY]
        j = self.json("pawl.run/1", *args, "--json")
        self.assertEqual(j["finish"], "stop")
        self.assertIn("5", j["text"])
        self.assertNotIn("<|im_end|>", j["text"])
        self.json("pawl.run/1", *args, "--system", "Be brief.", "--no-think", "--kwargs", '{"x": 1}', "--json")
        self.fails(1, ["--kwargs", "object"], *args, "--kwargs", "[1]")
        self.fails(1, "--kwargs", *args, "--kwargs", "{")

    def test_limits_of_the_answer(self):
        full = self.json("pawl.run/1", "run", DEMO, "-p", PROMPT, "-n", "40", *GREEDY, "--json")
        words = full["text"].split(" ")
        stop = " " + " ".join(words[4:6])
        j = self.json("pawl.run/1", "run", DEMO, "-p", PROMPT, "-n", "40", *GREEDY, "--json", "--stop", stop)
        self.assertEqual((j["text"], j["finish"]), (full["text"].split(stop)[0], "stop"))
        text = self.ok("run", DEMO, "-p", PROMPT, "-n", "40", *GREEDY, "--stop", stop).stdout.decode()
        self.assertEqual(text, j["text"])
        j = self.json("pawl.run/1", "run", DEMO, "-p", PROMPT, "-n", "0", "--context", "20", *GREEDY, "--json",
                      "--ignore-eos")
        self.assertEqual((j["finish"], j["stats"]["prompt_tokens"] + len(j["ids"])), ("length", 20))
        first = full["ids"][0]
        j = self.json("pawl.run/1", "run", DEMO, "-p", PROMPT, "-n", "4", *GREEDY, "--json", "--logit-bias",
                      f"{first}=-inf")
        self.assertNotIn(first, j["ids"])

    def test_kernel_options(self):
        args = ["run", DEMO, "-p", PROMPT, "-n", "6", *GREEDY]
        want = self.ok(*args).stdout
        for extra in (["--isa", "ref"], ["--deterministic"], ["--draft-isa", "ref"], ["--threads", "1", "--chunk", "1"],
                      ["--check-nan", "--poison"], ["--draft-deterministic"]):
            with self.subTest(extra=extra):
                self.assertEqual(self.ok(*args, *extra).stdout, want)
        self.fails(1, ["no:such"], *args, "--kernel", "linear=no:such")
        self.fails(1, ["no:such"], *args, "--ban", "no:such")

    def test_without_a_tokenizer(self):
        for model in TINY:
            with self.subTest(model=model):
                r = self.ok("run", model, "--ids", "-p", "1,2 3", "-n", "6", *GREEDY)
                self.assertRegex(r.stdout.decode(), r"^\d+( \d+){0,5}\n$")
                j = self.json("pawl.run/1", "run", model, "--ids", "-p", "1 2 3", "-n", "6", *GREEDY, "--json")
                self.assertIsNone(j["text"])
                self.assertEqual(" ".join(map(str, j["ids"])) + "\n", r.stdout.decode())
                self.fails(1, "tokenizer", "run", model, "-p", "text")
                self.fails(1, "tokenizer", "chat", model)
                self.fails(1, "tokenizer.json", "tokenize", model, "-p", "text")
                ids = self.file("ids", "1 2 3 4,5\n6")
                self.json("pawl.score/1", "score", model, "--ids-file", ids, "--json")
                self.ok("explain", model)
                self.ok("inspect", model)
        self.fails(1, ["999999", "vocabulary"], "run", TINY[0], "--ids", "-p", "1 999999")

    def test_bad_prompts(self):
        self.fails(1, ["UTF-8", "0xff", "offset 2"], "run", DEMO, "-f", self.file("bad", b"ab\xff"))
        self.fails(1, ["UTF-8", "offset 0"], "run", DEMO, "-", stdin=b"\xed\xa0\x80")
        self.fails(1, "UTF-8", "tokenize", DEMO, "-", stdin=b"\xc3")
        self.fails(1, ["tokens", "context holds 8"], "run", DEMO, "-p", PROMPT * 9, "--context", "8")
        self.fails(1, "empty", "run", DEMO, "-p", "")
        self.fails(1, ['"x"', "offset 4"], "run", DEMO, "--ids", "-p", "1 2 x")
        self.fails(1, "-5", "run", DEMO, "--ids", "-p", "-5")
        self.fails(1, "99999999999", "run", DEMO, "--ids", "-p", "99999999999")
        self.fails(1, "no-such-file", "run", DEMO, "-f", "no-such-file")

    def test_bad_checkpoints(self):
        self.fails(1, "no/such/folder", "run", "no/such/folder", "-p", "x")
        self.fails(1, "config.json", "explain", self.tmp)
        model = os.path.join(self.tmp, "cut")
        shutil.copytree(TINY[0], model)
        os.truncate(os.path.join(model, "model.safetensors"), 1000)
        self.fails(1, "model.safetensors", "run", model, "--ids", "-p", "1")
        self.file("cut/config.json", "{")
        self.fails(1, "config.json", "run", model, "--ids", "-p", "1")

    def test_stdout_that_cannot_be_written(self):
        args = ["run", DEMO, "-p", PROMPT, "-n", "400", "--ignore-eos", *GREEDY]
        with open("/dev/full", "w") as full:
            r = subprocess.run([PAWL, *args], stdout=full, stderr=subprocess.PIPE, timeout=250)
        self.assertEqual(r.returncode, 1)
        self.assertIn(b"standard output", r.stderr)
        with subprocess.Popen([PAWL, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            self.assertEqual(len(p.stdout.read(5)), 5)
            p.stdout.close()  # what `head -c 5` does
            self.assertEqual(p.wait(20), 0)
            self.assertEqual(p.stderr.read(), b"")


class Signals(Cli):
    LONG = ["run", DEMO, "-p", PROMPT, "-n", "0", "--ignore-eos", *GREEDY]

    def start(self, *args):
        # unbuffered: communicate() would lose what read() had taken in advance
        p = subprocess.Popen([PAWL, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.addCleanup(lambda: (p.kill(), p.wait(), p.stdout.close(), p.stderr.close()))
        return p

    def test_interrupt_prints_what_there_is(self):
        p = self.start(*self.LONG)
        head = p.stdout.read(10)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 130, err)
        self.assertEqual(err, b"")
        got = head + out
        want = self.ok(*[a if a != "0" else "300" for a in self.LONG[:6]], *self.LONG[6:]).stdout
        self.assertTrue(want.startswith(got) or got.startswith(want))
        self.assertLess(len(got), 4000 * 2)  # far from the whole context's text

    def test_interrupted_json_is_whole(self):
        p = self.start(*self.LONG, "--json")
        time.sleep(1.0)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        if p.returncode == 0:
            self.skipTest("the run was over before the signal")
        self.assertEqual(p.returncode, 130, err)
        if out:  # nothing at all when the signal came while loading
            j = json.loads(out)
            schema.check(j, schema.load("pawl.run/1"))
            self.assertEqual(j["finish"], "canceled")

    def test_file_cut_while_in_use(self):
        model = os.path.join(self.tmp, "m")
        shutil.copytree(DEMO, model)
        p = self.start("run", model, "-p", PROMPT, "-n", "0", "--ignore-eos", *GREEDY)
        p.stdout.read(5)
        for name in os.listdir(model):
            if name.endswith(".safetensors"):
                os.truncate(os.path.join(model, name), 0)
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 1, err)
        self.assertRegex(err.decode(), r"^pawl: .*\.safetensors: [^\n]*\n$")


class Text(Cli):
    def test_there_and_back(self):
        text = "Grüße, 世界! 👩‍🚀 def f(x):\n\treturn x  # 42\n"
        j = self.json("pawl.tokenize/1", "tokenize", DEMO, "-p", text, "--json")
        self.assertEqual(len(j["ids"]), len(j["pieces"]))
        ids = self.ok("tokenize", DEMO, "-", stdin=text.encode()).stdout
        self.assertEqual([int(i) for i in ids.split()], j["ids"])
        self.assertEqual(self.ok("detokenize", DEMO, "-", stdin=ids).stdout.decode(), text)
        self.assertEqual(self.ok("detokenize", DEMO, *ids.decode().split()).stdout.decode(), text)
        d = self.json("pawl.detokenize/1", "detokenize", DEMO, "-f", self.file("ids", ids), "--json")
        self.assertEqual(d["text"], text)

    def test_special_tokens(self):
        text = "<|im_start|>user"
        plain = self.ok("tokenize", DEMO, "-p", text).stdout.split()
        special = self.ok("tokenize", DEMO, "-p", text, "--special").stdout.split()
        self.assertLess(len(special), len(plain))
        for ids, want in ((plain, text), (special, "user")):
            r = self.ok("detokenize", DEMO, "--skip-special", *[i.decode() for i in ids])
            self.assertEqual(r.stdout.decode(), want)

    def test_goldens_through_the_program(self):
        with open("tests/golden/chat_template.json", encoding="utf-8") as f:
            cases = json.load(f)["cases"]
        for c in cases[:6]:
            with self.subTest(case=c["name"]):
                kwargs = dict(c["options"])
                args = [] if kwargs.pop("add_generation_prompt", False) else ["--no-generation-prompt"]
                if kwargs:
                    args += ["--kwargs", json.dumps(kwargs)]
                if c.get("tools"):
                    args += ["--tools", self.file("tools.json", json.dumps(c["tools"]))]
                messages = self.file("messages.json", json.dumps(c["messages"]))
                r = pawl("render", DEMO, messages, *args)
                if "text" not in c:
                    self.assertEqual(r.returncode, 1)
                    continue
                self.assertEqual(r.stdout.decode(), c["text"], r.stderr)
                ids = self.ok("tokenize", DEMO, "--special", "-", stdin=r.stdout).stdout
                self.assertEqual([int(i) for i in ids.split()], c["ids"])

    def test_messages(self):
        m = [{"role": "user", "content": "Hi"}]
        want = self.ok("render", DEMO, "-", stdin=json.dumps(m).encode()).stdout
        got = self.ok("render", DEMO, "-", stdin=json.dumps({"messages": m, "tools": None}).encode()).stdout
        self.assertEqual(got, want)
        self.fails(1, "messages", "render", DEMO, "-", stdin=b"{}")
        self.fails(1, "array", "render", DEMO, "-", stdin=b'{"messages": 3}')
        self.fails(1, "standard input", "render", DEMO, "-", stdin=b"[")
        self.fails(1, ["tools.json", "array"], "render", DEMO, self.file("m.json", json.dumps(m)), "--tools",
                   self.file("tools.json", "{}"))


class Score(Cli):
    def header(self, path):
        with open(path, "rb") as f:
            return json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))

    def test_files(self):
        ids = self.file("ids.txt", "373, 622\n258 587\t11")
        out = os.path.join(self.tmp, "logits.safetensors")
        r = self.ok("score", DEMO, "--ids-file", ids, "--out", out, "--mtp", "--chunk", "2")
        self.assertEqual(r.stdout, b"")
        h = self.header(out)
        vocab = h["logits"]["shape"][1]
        self.assertEqual((h["logits"]["dtype"], h["logits"]["shape"][0]), ("F32", 5))
        self.assertEqual((h["mtp_logits"]["dtype"], h["mtp_logits"]["shape"]), ("F32", [4, vocab]))
        whole = os.path.join(self.tmp, "whole.safetensors")
        self.ok("score", DEMO, "--ids-file", "-", "--out", whole, "--mtp", stdin=b"373 622 258 587 11")
        with open(out, "rb") as a, open(whole, "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.ok("score", DEMO, "--ids-file", ids, "--out", whole)
        self.assertNotIn("mtp_logits", self.header(whole))

    def test_report(self):
        j = self.json("pawl.score/1", "score", DEMO, "-p", PROMPT, "--json")
        lines = self.ok("score", DEMO, "-p", PROMPT).stdout.decode().splitlines()
        self.assertEqual(len(lines), len(j["tokens"]))
        for line, t in zip(lines, j["tokens"][1:]):
            _, i, p = line.split("\t")
            self.assertEqual(int(i), t["id"])
            self.assertAlmostEqual(float(p), t["logprob"], places=5)
        self.assertIn("perplexity", lines[-1])
        self.assertTrue(all(t["logprob"] <= 0 for t in j["tokens"][1:]))

    def test_bad_input(self):
        out = os.path.join(self.tmp, "none", "x.safetensors")
        self.fails(1, "none", "score", DEMO, "-p", PROMPT, "--out", out)
        self.fails(1, "ids.txt", "score", DEMO, "--ids-file", self.file("ids.txt", "1;2"))
        self.fails(1, "at least 2", "score", DEMO, "--ids-file", self.file("one", "1"))
        self.fails(1, ["5", "context holds 4"], "score", DEMO, "--ids-file", self.file("i", "1 2 3 4 5"), "--context", "4")
        keep = self.file("keep.safetensors", "old")
        self.fails(1, "vocabulary", "score", DEMO, "--ids-file", self.file("v", "1 999999"), "--out", keep)
        with open(keep) as f:  # a failed run leaves the old file alone, and no half one beside it
            self.assertEqual(f.read(), "old")
        self.assertEqual([n for n in os.listdir(self.tmp) if n.startswith("keep")], ["keep.safetensors"])


class Plans(Cli):
    def test_explain(self):
        here = self.ok("explain", DEMO)
        self.assertIn(b"linear", here.stdout)
        gpu = self.ok("explain", DEMO, "--caps", "cuda cc=90 sms=132")
        self.assertNotEqual(gpu.stdout, here.stdout)
        ref = self.ok("explain", DEMO, "--isa", "ref").stdout.decode()
        self.assertIn(":ref", ref)
        self.json("pawl.explain/1", "explain", DEMO, "--json")
        self.json("pawl.explain/1", "explain", DEMO, "--json", "--caps", "cuda cc=100 sms=148")
        self.fails(1, "toaster", "explain", DEMO, "--caps", "toaster cc=90")

    def test_inspect(self):
        self.assertTrue(self.ok("inspect", DEMO).stdout)
        self.assertGreater(len(self.ok("inspect", DEMO, "--tensors").stdout), len(self.ok("inspect", DEMO).stdout))
        self.json("pawl.inspect/1", "inspect", DEMO, "--json")
        self.json("pawl.inspect/1", "inspect", DEMO, "--tensors", "--json")

    def test_synth(self):
        for fmt in ("bf16", "fp8", "nvfp4"):
            with self.subTest(format=fmt):
                dst = os.path.join(self.tmp, fmt)
                r = self.ok("synth", DEMO + "/config.json", dst, "--format", fmt, "--planted-mtp", "--seed", "3")
                self.assertEqual(r.stdout, b"")
                j = self.json("pawl.run/1", "run", dst, "--ids", "-p", "1 2 3", "-n", "20", "--draft", "4", *GREEDY,
                              "--ignore-eos", "--json")
                self.assertEqual(j["stats"]["accepted"], j["stats"]["drafted"])
        self.fails(1, "bf16", "synth", DEMO + "/config.json", os.path.join(self.tmp, "bf16"))
        self.fails(1, "no-such.json", "synth", "no-such.json", os.path.join(self.tmp, "x"))


class Chat(Cli):
    def test_from_a_pipe(self):
        script = "What is 2 + 3?\n/stats\n\n/reset\n/nonsense\nWhat is 4 + 5?\n/quit\nnever read\n"
        r = self.ok("chat", DEMO, *GREEDY, stdin=script.encode())
        lines = r.stdout.decode().strip().splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertIn("5", lines[0])
        self.assertIn("9", lines[1])
        for w in (b"tokens/s", b"/nonsense", b"/help"):
            self.assertIn(w, r.stderr)
        r = self.ok("chat", DEMO, *GREEDY, "-n", "4", stdin=b"/help\n/system Be brief.\n\xff\nHi\n")
        self.assertIn(b"/quit", r.stderr)
        self.assertIn(b"UTF-8", r.stderr)

    def test_later_turns_see_earlier_ones(self):
        one = self.ok("chat", DEMO, *GREEDY, "-n", "30", stdin=b"What is 2 + 3?\nWhat is 4 + 5?\n").stdout
        m = [{"role": "user", "content": "What is 2 + 3?"}, {"role": "assistant", "content": None},
             {"role": "user", "content": "What is 4 + 5?"}]
        m[1]["content"] = self.ok("run", DEMO, "--chat", "-p", m[0]["content"], *GREEDY, "-n", "30").stdout.decode()
        prompt = self.ok("render", DEMO, "-", stdin=json.dumps(m).encode()).stdout
        second = self.ok("run", DEMO, "-", "--special", *GREEDY, "-n", "30", stdin=prompt).stdout.decode()
        self.assertEqual(one.decode(), m[1]["content"] + "\n" + second + "\n")

    def test_terminal(self):
        """Line editing, history, and Ctrl-C that stops the answer, not the program."""
        env = {**ENV, "TERM": "xterm", "XDG_STATE_HOME": self.tmp, "HOME": self.tmp}
        main, side = pty.openpty()
        p = subprocess.Popen([PAWL, "chat", DEMO, "--ignore-eos", *GREEDY], stdin=side, stderr=side,
                             stdout=subprocess.PIPE, env=env, preexec_fn=take_terminal)
        self.addCleanup(lambda: (p.kill(), p.wait(), p.stdout.close(), os.close(main)))
        os.close(side)
        seen = b""

        def wait_for(fd, words, limit=60):
            nonlocal seen
            end = time.time() + limit
            while words not in seen:
                ready, _, _ = select.select([fd], [], [], max(0, end - time.time()))
                self.assertTrue(ready, f"no {words!r} in {seen!r}")
                seen += os.read(fd, 4096)
            seen = seen.split(words, 1)[1]
            time.sleep(0.2)  # a prompt is shown a moment before the terminal is ready for keys

        wait_for(main, b"> ")
        os.write(main, b"Tell me a storx\x7fy\n")  # a corrected letter
        self.assertTrue(os.read(p.stdout.fileno(), 1))
        os.write(main, b"\x03")
        wait_for(main, b"[stopped]")
        wait_for(main, b"> ")
        os.write(main, b"half a line\x03")
        wait_for(main, b"> ")
        os.write(main, b"/stats\n")
        wait_for(main, b"[statistics on]")
        wait_for(main, b"> ")
        os.write(main, b"\x1b[A\x1b[A\n")  # two lines up: the story again
        os.read(p.stdout.fileno(), 4096)
        self.assertTrue(os.read(p.stdout.fileno(), 1))
        os.write(main, b"\x03")
        wait_for(main, b"[stopped]")
        wait_for(main, b"> ")
        os.write(main, b"\x04")
        self.assertEqual(p.wait(20), 0)
        with open(os.path.join(self.tmp, "pawl", "history"), encoding="utf-8") as f:
            self.assertIn("Tell\\040me\\040a\\040story", f.read())


def take_terminal():
    import fcntl
    import termios
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
