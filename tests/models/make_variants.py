#!/usr/bin/env python3
"""Makes tale-moe-nvfp4 from tale-moe-bf16, byte for byte as listed in SHA256SUMS.  Needs numpy; takes seconds.

usage: make_variants.py [OUT_DIR]      (default: tale-moe-nvfp4 beside this script; nothing is done when it is there)

NVFP4 as ModelOpt stores it: e2m1 codes in groups of 16 along the input axis, two to a byte (the even column in the low
four bits), e4m3 weight_scale per group, f32 weight_scale_2 per tensor = largest magnitude / (6 * 448), shared by q/k/v,
by gate/up and by in_proj_qkv/in_proj_z; w = code * weight_scale * weight_scale_2.  input_scale = largest input magnitude
seen in calibration / (6 * 448).  Rounding is to nearest, ties to even, all scales in f32.
tale-moe-nvfp4.in holds what cannot be computed from the weights: the calibration, and the configs.
"""
import hashlib
import json
import os
import shutil
import struct
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.join(HERE, "tale-moe-bf16")
IN = os.path.join(HERE, "tale-moe-nvfp4.in")
SIZE = {"F32": 4, "BF16": 2, "F8_E4M3": 1, "U8": 1}
NP = {"F32": "<f4", "BF16": "<u2", "F8_E4M3": "u1", "U8": "u1"}
COPIED = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")

E4M3 = np.array([(b & 7) / 8 * 2.0**-6 if b < 8 else (1 + (b & 7) / 8) * 2.0 ** ((b >> 3) - 7) for b in range(127)], np.float32)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)

LINEAR = tuple("." + n for n in ("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj",
                                 "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                 "shared_expert.gate_proj", "shared_expert.up_proj", "shared_expert.down_proj"))
LINEAR += tuple(f".experts.{e}.{n}" for e in range(64) for n in ("gate_proj", "up_proj", "down_proj"))
# Parts of one fused matrix share their scales.
GROUPS = ((("q_proj", "k_proj", "v_proj"), "qkv"), (("gate_proj", "up_proj"), "gu"), (("in_proj_qkv", "in_proj_z"), "in"))


def f32(tensor):
    dtype, a = tensor
    return (a.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else a.astype(np.float32)


def read(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head, data = json.loads(f.read(n)), f.read()
    out = {}
    for name, v in head.items():
        if name != "__metadata__":
            begin, end = v["data_offsets"]
            out[name] = (v["dtype"], np.frombuffer(data[begin:end], NP[v["dtype"]]).reshape(v["shape"]))
    return out


def write(path, tensors):
    head, at, arrays = {"__metadata__": {"format": "pt"}}, 0, []
    for name, (dtype, a) in tensors.items():
        a = np.ascontiguousarray(a.astype(NP[dtype], copy=False))
        head[name] = {"dtype": dtype, "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
        arrays.append(a)
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in arrays:
            f.write(a.tobytes())


def nearest_even(x, grid):
    middle = (grid[1:].astype(np.float64) + grid[:-1]) / 2
    a, b = np.searchsorted(middle, x, "left"), np.searchsorted(middle, x, "right")
    return np.where((a != b) & (a % 2 == 1), b, a)


def nvfp4(w, amax):
    scale_2 = np.float32(amax) / np.float32(6 * 448)
    groups = w.reshape(w.shape[0], -1, 16)
    scale = np.abs(groups).max(-1) / np.float32(6) / scale_2
    scale[scale == 0] = 1.0
    scale = nearest_even(np.minimum(scale, np.float32(448)).astype(np.float64), E4M3).astype(np.uint8)
    scale[scale == 0] = 1
    x = groups / (E4M3[scale] * scale_2)[..., None]
    codes = nearest_even(np.abs(x).astype(np.float64), E2M1).astype(np.uint8) | (np.signbit(x).astype(np.uint8) << 3)
    codes = codes.reshape(w.shape)
    return (codes[:, 0::2] | (codes[:, 1::2] << 4)).astype(np.uint8), scale, scale_2


def source():
    """The BF16 tensors, with the fused experts of the main layers split as quantised checkpoints have them."""
    out = {}
    files = json.load(open(os.path.join(SRC, "model.safetensors.index.json")))["weight_map"]
    for file in sorted(set(files.values())):
        for name, (dtype, a) in read(os.path.join(SRC, file)).items():
            prefix, last = name.rsplit(".", 1)
            if not name.startswith("model.layers.") or last not in ("gate_up_proj", "down_proj") or a.ndim != 3:
                out[name] = (dtype, a)
                continue
            for e in range(a.shape[0]):
                half = a.shape[1] // 2
                if last == "gate_up_proj":
                    out[f"{prefix}.{e}.gate_proj.weight"] = (dtype, a[e, :half])
                    out[f"{prefix}.{e}.up_proj.weight"] = (dtype, a[e, half:])
                else:
                    out[f"{prefix}.{e}.down_proj.weight"] = (dtype, a[e])
    return out


def quantised(name):
    return name.startswith("model.layers.") and name.endswith(".weight") and name[:-7].endswith(LINEAR)


def group(name):
    for parts, g in GROUPS:
        for part in parts:
            if name.endswith(f".{part}.weight"):
                return name[:-len(part + ".weight")] + g
    return name


def quantise(tensors, calibration):
    w, x, out = {}, {}, {}
    for name, t in tensors.items():
        if quantised(name):
            g = group(name)
            w[g] = max(w.get(g, 0.0), float(np.abs(f32(t)).max()))
            x[g] = max(x.get(g, 0.0), calibration.get(name[:-7], 0.0))
    median = float(np.median([v for v in x.values() if v > 0]))  # for experts that the calibration text never reached
    for name, t in tensors.items():
        if not quantised(name):
            out[name] = t
            continue
        g = group(name)
        codes, scale, scale_2 = nvfp4(f32(t), w[g])
        out[name], out[name + "_scale"] = ("U8", codes), ("F8_E4M3", scale)
        out[name + "_scale_2"] = ("F32", np.array(scale_2, np.float32))
        out[name[:-7] + ".input_scale"] = ("F32", np.array((x[g] or median) / (6 * 448), np.float32))
    return out


def sums():
    with open(os.path.join(HERE, "SHA256SUMS")) as f:
        return {name: want for want, name in (line.split() for line in f)}


def differing(folder, prefix):
    """The files under a folder that are not as SHA256SUMS lists them."""
    bad = []
    for name, want in sums().items():
        if name.startswith(prefix + "/"):
            path = os.path.join(folder, name[len(prefix) + 1:])
            if not os.path.exists(path) or hashlib.sha256(open(path, "rb").read()).hexdigest() != want:
                bad.append(name)
    return bad


def main():
    out = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(HERE, "tale-moe-nvfp4")
    if os.path.isdir(out) and not differing(out, "tale-moe-nvfp4"):
        print("tale-moe-nvfp4 is there, all files as listed")
        return 0
    if bad := differing(SRC, "tale-moe-bf16"):
        print("the source differs from SHA256SUMS:", *bad)
        return 1
    tensors = quantise(source(), json.load(open(os.path.join(IN, "calibration_amax.json"))))
    made = tempfile.mkdtemp(prefix=".nvfp4-", dir=os.path.dirname(out))
    try:
        for name in os.listdir(IN):
            shutil.copyfile(os.path.join(IN, name), os.path.join(made, name))
        for name in COPIED:
            shutil.copyfile(os.path.join(SRC, name), os.path.join(made, name))
        write(os.path.join(made, "model.safetensors"), tensors)
        total = sum(a.size * SIZE[dtype] for dtype, a in tensors.values())
        with open(os.path.join(made, "model.safetensors.index.json"), "w") as f:
            json.dump({"metadata": {"total_size": total}, "weight_map": {k: "model.safetensors" for k in tensors}}, f, indent=1)
        if bad := differing(made, "tale-moe-nvfp4"):
            print("made, but these differ from SHA256SUMS:", *bad)
            return 1
        os.chmod(made, 0o755)
        shutil.rmtree(out, ignore_errors=True)
        os.rename(made, out)  # complete or not there: two builds may run at once
    finally:
        shutil.rmtree(made, ignore_errors=True)
    print("made tale-moe-nvfp4, all files as listed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
