"""Damaged checkpoints and hostile input through the whole program: one message, exit code 1, bounded memory and time.

The layers' own tests hold the many variants of each fault; this one shows that the message reaches the user whole, on one
line, and that the program stays within its bounds while it finds the fault. PAWL names the program. Run from the source
tree's root."""
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PAWL = os.environ.get("PAWL") or sys.exit("hostile_test: PAWL does not name the program")
DEMO = "models/tale-moe-fp8"
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
INDEX = "model.safetensors.index.json"
QKV = "model.layers.0.linear_attn.in_proj_qkv.weight"
EXPERT = "model.layers.1.mlp.experts.3.down_proj.weight"
ENV = {k: v for k, v in os.environ.items() if not k.startswith("PAWL_")}
MEMORY_KIB = 400 * 1024
SECONDS = 10
with open(PAWL, "rb") as program:
    SANITIZED = b"__asan_init" in program.read()  # shadow memory and quarantine are not pawl's


def measured(args, stdin=b""):
    """Runs pawl: exit code, stdout, stderr, seconds, peak KiB of this one process."""
    with tempfile.TemporaryFile() as inp, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        inp.write(stdin)
        inp.seek(0)
        start = time.monotonic()
        p = subprocess.Popen([PAWL, *args], stdin=inp, stdout=out, stderr=err, env=ENV,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)))
        watch = threading.Timer(6 * SECONDS, p.kill)  # what waits for ever uses no CPU time
        watch.start()
        _, status, used = os.wait4(p.pid, 0)
        watch.cancel()
        p.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - start
        out.seek(0)
        err.seek(0)
        return p.returncode, out.read(), err.read().decode(), seconds, used.ru_maxrss


class Hostile(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="pawl-hostile-")
        self.addCleanup(shutil.rmtree, self.tmp)
        self.model = os.path.join(self.tmp, "model")
        shutil.copytree(DEMO, self.model)

    def path(self, name):
        return os.path.join(self.model, name)

    def bounded(self, seconds, kib):
        if not SANITIZED:
            self.assertLess(seconds, SECONDS)
            self.assertLess(kib, MEMORY_KIB)

    def refused(self, words, *args, stdin=b""):
        """Exit code 1, nothing on stdout, one line on stderr that holds the words; bounded."""
        code, out, err, seconds, kib = measured(args or ("run", self.model, "-p", "Once", "-n", "2"), stdin)
        self.assertEqual((code, out), (1, b""), err)
        lines = [x for x in err.split("\n") if not x.startswith("warn ")]  # the log's lines may precede it
        self.assertRegex("\n".join(lines), r"\Apawl[^\n]*\n\Z")
        self.assertEqual(err.count(f"{self.model}: {self.model}"), 0, err)
        for w in [words] if isinstance(words, str) else words:
            self.assertIn(w, err)
        self.bounded(seconds, kib)

    def shard(self, i):
        """The header, as a dict, and the data of a shard."""
        with open(self.path(SHARDS[i]), "rb") as f:
            n = struct.unpack("<Q", f.read(8))[0]
            return json.loads(f.read(n)), bytearray(f.read())

    def write_shard(self, i, header, data):
        text = json.dumps(header).encode()
        with open(self.path(SHARDS[i]), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + data)

    def edit_shard(self, i, change):
        header, data = self.shard(i)
        change(header, data)
        self.write_shard(i, header, data)

    def edit_json(self, name, change):
        with open(self.path(name)) as f:
            j = json.load(f)
        change(j)
        with open(self.path(name), "w") as f:
            json.dump(j, f)

    def poke(self, tensor, at, value):
        """Overwrites the bytes of a tensor of the first shard from byte at."""
        def change(header, data):
            begin = header[tensor]["data_offsets"][0] + at
            data[begin:begin + len(value)] = value
        self.edit_shard(0, change)


class Files(Hostile):
    def test_truncated_header(self):
        for size, words in [(0, "file of 0 bytes, expected at least the 8 of a header's length"),
                            (5, "file of 5 bytes"), (1000, "but only 992 follow in the file")]:
            with self.subTest(size=size):
                shutil.copy(os.path.join(DEMO, SHARDS[0]), self.path(SHARDS[0]))
                os.truncate(self.path(SHARDS[0]), size)
                self.refused([SHARDS[0], words])

    def test_truncated_data(self):
        os.truncate(self.path(SHARDS[0]), os.path.getsize(self.path(SHARDS[0])) - 1)
        self.refused([SHARDS[0], "tensor ", "out of range, expected begin <= end <="])

    def test_header_length(self):
        size = os.path.getsize(self.path(SHARDS[1]))
        for n, words in [(size, f"header of {size} bytes, but only {size - 8} follow"),
                         (100000001, "header of 100000001 bytes, expected at most 100000000"),
                         (2**64 - 1, "header of 18446744073709551615 bytes, expected at most 100000000"),
                         (0, "header does not begin with '{'")]:
            with self.subTest(n=n):
                with open(self.path(SHARDS[1]), "r+b") as f:
                    f.write(struct.pack("<Q", n))
                self.refused([SHARDS[1], words])

    def test_long_header_of_a_sparse_file(self):
        with open(self.path(SHARDS[1]), "wb") as f:  # allowed length, and all of it is there: zeros after the brace
            f.write(struct.pack("<Q", 100000000) + b"{")
            f.truncate(8 + 100000000)
        self.refused([SHARDS[1], "JSON byte 1"])

    def test_offsets(self):
        def move(header, name, by):
            header[name]["data_offsets"] = [x + by for x in header[name]["data_offsets"]]
        self.edit_shard(0, lambda h, d: move(h, QKV, -2))
        self.refused([SHARDS[0], QKV, "it overlaps the tensor before it"])
        self.edit_shard(0, lambda h, d: move(h, QKV, 1 << 40))
        self.refused([SHARDS[0], QKV, "out of range"])

    def test_shape_product_overflow(self):
        self.edit_shard(0, lambda h, d: h[QKV].update(shape=[1 << 32, 1 << 32]))
        self.refused([SHARDS[0], QKV, "shape: its product overflows"])

    def test_duplicate_name(self):
        header, data = self.shard(1)
        name = "mtp.norm.weight"
        text = json.dumps(header)[:-1] + f', "{name}": {json.dumps({**header[name], "shape": [0], "data_offsets": [0, 0]})}}}'
        with open(self.path(SHARDS[1]), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text.encode() + data)
        self.refused([SHARDS[1], name, "name given twice"])

    def test_missing_shard(self):
        os.remove(self.path(SHARDS[1]))
        self.refused([SHARDS[1], "cannot open", INDEX])

    def test_things_that_are_no_files(self):
        for name in (SHARDS[0], INDEX, "config.json", "tokenizer.json"):
            os.remove(self.path(name))
            with self.subTest(name=name, thing="fifo"):
                os.mkfifo(self.path(name))
                self.refused([name, "not a regular file"])
            os.remove(self.path(name))
            with self.subTest(name=name, thing="folder"):
                os.mkdir(self.path(name))
                self.refused([name, "not a regular file"])
            os.rmdir(self.path(name))
            with self.subTest(name=name, thing="empty"):
                open(self.path(name), "wb").close()
                self.refused(name)
            shutil.copy(os.path.join(DEMO, name), self.path(name))


class Tensors(Hostile):
    def drop(self, i, name):
        """Takes a tensor out of the shard and the index: its bytes stay as a tensor that nobody asks for."""
        self.edit_shard(i, lambda h, d: h.update({"spare": h.pop(name)}))
        self.edit_json(INDEX, lambda j: j["weight_map"].pop(name))

    def test_missing(self):
        for i, name in [(0, QKV), (0, "model.norm.weight"), (1, "mtp.norm.weight"), (0, "mtp.fc.weight"),
                        (0, "mtp.layers.0.self_attn.q_proj.weight")]:
            with self.subTest(name=name):
                for s in (*SHARDS, INDEX):
                    shutil.copy(os.path.join(DEMO, s), self.path(s))
                if name not in self.shard(i)[0]:
                    i = 1 - i
                self.drop(i, name)
                self.refused([name, "missing"])

    def test_listed_but_absent(self):
        self.edit_shard(1, lambda h, d: h.update({"spare": h.pop("mtp.norm.weight")}))
        self.refused([SHARDS[1], "mtp.norm.weight is missing", INDEX])

    def test_wrong_shape(self):
        self.edit_shard(0, lambda h, d: h[QKV].update(shape=[256, 512]))
        self.refused([SHARDS[0], QKV, "[256, 512]", "[512, 256]"])

    def test_wrong_shape_of_the_draft_layer(self):
        self.edit_shard(0, lambda h, d: h["mtp.fc.weight"].update(shape=[512, 256]))
        self.refused([SHARDS[0], "mtp.fc.weight", "[512, 256]", "[256, 512]"])
        # also when nothing is drafted: it is the checkpoint that is broken
        self.refused("mtp.fc.weight", "run", self.model, "-p", "Once", "-n", "2", "--draft", "0")

    def test_wrong_dtype(self):
        name = "model.layers.0.input_layernorm.weight"
        self.edit_shard(0, lambda h, d: h[name].update(dtype="I16"))
        self.refused([SHARDS[0], name, "I16 [256]", "expected"])
        self.edit_shard(0, lambda h, d: (h[name].update(dtype="BF16"), h[QKV].update(dtype="I8")))
        self.refused([SHARDS[0], QKV, "I8 [512, 256]", "expected"])
        self.edit_shard(0, lambda h, d: h[QKV].update(dtype="F9_NEW"))
        self.refused([SHARDS[0], QKV, "F9_NEW [512, 256]", "expected"])

    def test_scales(self):
        scale = QKV + "_scale_inv"
        for bits, shown in [(0x7FC0, "nan"), (0x7F80, "inf"), (0xBF80, "-1")]:
            with self.subTest(shown=shown):
                self.poke(scale, 6, struct.pack("<H", bits))
                self.refused([SHARDS[0], scale, f"element 3 is {shown}, expected a finite scale of at least 0"])
        self.edit_shard(0, lambda h, d: h[scale].update(shape=[2, 4]))
        self.refused([SHARDS[0], scale, "[2, 4]: expected shape [4, 2]"])

    def test_zero_block_scale_is_legal(self):
        self.poke(QKV + "_scale_inv", 6, b"\0\0")
        code, out, err, seconds, kib = measured(["run", self.model, "-p", "Once", "-n", "4", "--check-nan"])
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out)
        self.bounded(seconds, kib)

    def test_nan_code_is_found(self):
        for tensor, at, op, layer in [(QKV, 5, "linear", "layer 0"), (EXPERT, 9, "moe", "layer 1")]:
            for code in (0x7F, 0xFF):
                with self.subTest(tensor=tensor, code=code):
                    for s in SHARDS:
                        shutil.copy(os.path.join(DEMO, s), self.path(s))
                    # a whole expert: which rows go to it is the router's choice
                    self.poke(tensor, at, bytes([code]) * (1 if op == "linear" else 128))
                    self.refused([op, layer, "row "], "run", self.model, "-p", "Once upon a time there was a dog", "-n",
                                 "40", "--ignore-eos", "--check-nan", "--json")


class Configs(Hostile):
    def test_unknown_architecture(self):
        self.edit_json("config.json", lambda j: j.update(model_type="llama"))
        self.refused(["config.json", 'model_type: found "llama"', "qwen3_5_moe_text"])

    def test_absurd_sizes(self):
        for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                    "head_dim", "num_experts", "num_experts_per_tok", "moe_intermediate_size",
                    "shared_expert_intermediate_size", "max_position_embeddings", "linear_num_key_heads",
                    "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim",
                    "full_attention_interval", "mtp_num_hidden_layers"):
            for value in (1 << 40, -1):
                with self.subTest(key=key, value=value):
                    shutil.copy(os.path.join(DEMO, "config.json"), self.path("config.json"))
                    self.edit_json("config.json", lambda j: j.update({key: value}))
                    self.refused(["config.json", key, f"found {value}", "expected"])

    def test_largest_sizes_that_pass(self):
        """Sizes inside the bounds that the tensors contradict: refused by a tensor, before anything is allocated."""
        for key, value in [("vocab_size", 1 << 24), ("hidden_size", 1 << 20), ("num_experts", 1 << 16),
                           ("moe_intermediate_size", 1 << 20), ("head_dim", 4096), ("linear_key_head_dim", 4096)]:
            with self.subTest(key=key):
                shutil.copy(os.path.join(DEMO, "config.json"), self.path("config.json"))
                self.edit_json("config.json", lambda j: j.update({key: value}))
                self.refused("tensor ")

    def test_context(self):
        self.edit_json("config.json", lambda j: j.update(max_position_embeddings=1 << 27))
        code, _, err, seconds, kib = measured(["run", self.model, "-p", "Once", "-n", "2"])
        self.assertIn(code, (0, 1), err)
        self.bounded(seconds, kib)

    def test_not_json(self):
        for text, words in [(b"", "not valid JSON"), (b"{", "not valid JSON"), (b"[" * 100000, "not valid JSON"),
                            (b'{"a":"\xff"}', "not valid JSON"), (b"[1]", "expected an object, found an array")]:
            with self.subTest(text=text[:20]):
                with open(self.path("config.json"), "wb") as f:
                    f.write(text)
                self.refused(["config.json", words])


class Text(Hostile):
    def test_broken_merges(self):
        for merge, words in [("a b c", "merges"), ("ab", "merges"), (["a"], "merges"), (7, "merges"),
                             ("\u0001 b", "merges")]:
            with self.subTest(merge=merge):
                shutil.copy(os.path.join(DEMO, "tokenizer.json"), self.path("tokenizer.json"))
                self.edit_json("tokenizer.json", lambda j: j["model"]["merges"].append(merge))
                self.refused(["tokenizer.json", words])
        self.edit_json("tokenizer.json", lambda j: j["model"].pop("merges"))
        self.refused(["tokenizer.json", "merges"])

    def test_templates(self):
        messages = os.path.join(self.tmp, "messages.json")
        with open(messages, "w") as f:
            f.write('[{"role": "user", "content": "hi"}]')
        endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
        recursion = "{% macro f() %}{{ f() }}{% endmacro %}\n{{ f() }}"
        for source, words in [(endless, "steps"), (recursion, "nested more than 200 deep"),
                              ("{{ " + "(" * 100000 + "1" + ")" * 100000 + " }}", "nested"),
                              ("{% if 1 %}" * 100000 + "{% endif %}" * 100000, "nested"),
                              ("{{ 'x' * 10 ** 10 }}", "a repetition"), ("{% for x in %}", "chat_template.jinja:1")]:
            with self.subTest(source=source[:40]):
                with open(self.path("chat_template.jinja"), "w") as f:
                    f.write(source)
                self.refused(["chat_template.jinja", words], "render", self.model, messages)

    def test_prompt_that_is_not_utf8(self):
        self.refused(["UTF-8", "0xff", "offset 2"], "run", DEMO, "-", stdin=b"ab\xff")
        self.refused(["UTF-8", "offset 0"], "run", DEMO, "-", stdin=b"\xed\xa0\xbd")  # a lone surrogate

    def test_prompt_longer_than_the_context(self):
        self.refused(["prompt has 20 tokens", "context holds 8"], "run", DEMO, "--ids", "-p", "5 " * 20, "--context", "8")
        self.refused(["prompt has 4097 tokens", "context holds 4096"], "run", DEMO, "--ids", "-", stdin=b"5 " * 4097)

    def test_messages(self):
        path = os.path.join(self.tmp, "messages.json")
        for text, words in [(b"", "not valid JSON"), (b"[" * 100000, "not valid JSON"), (b'"x"', "expected"),
                            (b"{}", "expected"), (b"[1]", "messages[0]: expected an object, found an integer")]:
            with self.subTest(text=text[:10]):
                with open(path, "wb") as f:
                    f.write(text)
                self.refused(words if text == b"[1]" else ["messages.json", words], "render", self.model, path)


if __name__ == "__main__":
    unittest.main()
