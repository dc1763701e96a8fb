"""A compact llama in PyTorch with the three attention arms that ship: baseline, focal constant, focal learned.

It computes what Hugging Face's LlamaForCausalLM computes (RMSNorm, half-rotation RoPE, grouped queries, SwiGLU, tied
embedding) and saves the same tensor names, so that a baseline loads there unchanged. Focal attention, constant: the
logits are divided by t. Learned: sqrt(head width) is replaced by tau = clip(running mean of (x.w + b)), x after the
input norm, one tau per layer and query row.
"""

import dataclasses
import json
import math
import pathlib

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Config:
    vocab_size: int = 2023
    hidden_size: int = 128
    intermediate_size: int = 256
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 4
    head_dim: int = 32
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e10
    max_position_embeddings: int = 65536
    trained_context_length: int = 2048
    focal: dict | None = None

    def to_json(self):
        """config.json of a Hugging Face llama, with our two keys when they apply."""
        out = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": None,
            "max_position_embeddings": self.max_position_embeddings,
            "attention_bias": False,
            "mlp_bias": False,
            "tie_word_embeddings": True,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "torch_dtype": "float32",
            "trained_context_length": self.trained_context_length,
        }
        if self.focal:
            out["focal_attention"] = self.focal
        return out


def rope_table(config, length):
    frequency = config.rope_theta ** (-torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        c = config
        self.q_proj = nn.Linear(c.hidden_size, c.num_attention_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)
        self.focal = c.focal or {}
        if self.focal.get("mode") == "learned":
            self.tau_proj = nn.Linear(c.hidden_size, 1)

    def tau(self, x):
        """[B, T] divisors of the logits: the causal running mean, clipped, with a straight-through gradient."""
        with torch.autocast("cpu", enabled=False):
            raw = self.tau_proj(x.float()).squeeze(-1)
            count = torch.arange(1, raw.shape[1] + 1, dtype=torch.float64)
            mean = (raw.double().cumsum(1) / count).float()
            return mean + (mean.clamp(self.focal["tau_min"], self.focal["tau_max"]) - mean).detach()

    def forward(self, x, cos, sin):
        c, (b, t, _) = self.config, x.shape
        q = self.q_proj(x).view(b, t, c.num_attention_heads, c.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, t, c.num_key_value_heads, c.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, t, c.num_key_value_heads, c.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        scale = c.head_dim**-0.5
        if self.focal.get("mode") == "constant":
            scale /= self.focal["temperature"]
        elif self.focal.get("mode") == "learned":
            q, scale = q / self.tau(x)[:, None, :, None], 1.0
        group = c.num_attention_heads // c.num_key_value_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True, scale=scale)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = MLP(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


# Initialization of the heads of the second and third layer; see Llama.find_again.
FIRST_LOOKS = [([(0, 1), (1, 2), (2, 3)], 1.1), ([(0, 2)], 1.8), ([(0, 3)], 1.8), ([(0, 4)], 1.8)]
SECOND_LOOKS = [2, ([(1, 2), (2, 3), (0, 1)], 1.3), ([(3, 4), (0, 1)], 1.5), 3]


class Llama(nn.Module):
    def __init__(self, config, mimetic=True, seed=0):
        super().__init__()
        self.config = config
        torch.manual_seed(seed)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.table = None
        self.initialize(mimetic)

    @torch.no_grad()
    def initialize(self, mimetic):
        """Normal weights of variance 1/fan-in, and two structures that accelerate the emergence of induction.

        Without them the matching of words emerges only after millions of tokens. Each query starts close to its key and
        each output close to its value's transpose (mimetic initialization, Trockman and Kolter 2023); the first layer
        starts looking back, the next two start finding again. All of it is trained from there, the same in every arm.
        """
        c = self.config
        nn.init.normal_(self.embed_tokens.weight, std=c.hidden_size**-0.5)
        for layer in self.layers:
            a, m = layer.self_attn, layer.mlp
            for w in (a.q_proj, a.k_proj, a.v_proj, a.o_proj, m.gate_proj, m.up_proj, m.down_proj):
                nn.init.normal_(w.weight, std=w.weight.shape[1] ** -0.5)
            m.down_proj.weight *= 0.2
            for w in (a.o_proj, m.down_proj):
                w.weight /= math.sqrt(2 * c.num_hidden_layers)
            if mimetic:
                group = c.num_attention_heads // c.num_key_value_heads
                k = a.k_proj.weight.view(c.num_key_value_heads, c.head_dim, -1).repeat_interleave(group, 0)
                a.q_proj.weight.copy_(0.8 * k.reshape(-1, c.hidden_size) + 0.6 * a.q_proj.weight)
            if mimetic and layer is self.layers[0]:
                parts = self.look_back(a)
            elif mimetic and layer is self.layers[1]:
                self.find_again(a, *parts, FIRST_LOOKS)
            elif mimetic and layer is self.layers[2]:
                self.find_again(a, *parts, SECOND_LOOKS)
            elif mimetic:
                v = a.v_proj.weight.view(c.num_key_value_heads, c.head_dim, -1).repeat_interleave(group, 0)
                a.o_proj.weight.copy_(0.5 * a.o_proj.weight + 0.5 * v.reshape(-1, c.hidden_size).T)
            # Every arm initially computes the same function: queries are scaled down by the arm's scale factor.
            if a.focal.get("mode") == "constant":
                a.q_proj.weight *= a.focal["temperature"]
            if a.focal.get("mode") == "learned":
                start = 0.5 * (a.focal["tau_min"] + a.focal["tau_max"])
                nn.init.zeros_(a.tau_proj.weight)
                nn.init.constant_(a.tau_proj.bias, start)
                a.q_proj.weight *= start / math.sqrt(c.head_dim)

    @torch.no_grad()
    def look_back(self, attention, strength=8.0):
        """Head h of the first layer looks h + 1 tokens back, by position alone, and passes on what stands there.

        The stream is parted at the start: one direction that all embeddings share, a few dozen for the words, and one
        part for each head's word. Read through the shared direction, q.k * head_dim^-1/2 starts as strength times the
        sum over bands of cos((distance - offset) * frequency). Returns how to read P(d), the word d places back, as
        rows that are in use in every head: those of the bands that hardly turn within the training length.
        """
        c = self.config
        frequency = c.rope_theta ** (-torch.arange(0, c.head_dim, 2, dtype=torch.float64) / c.head_dim)
        slow = (frequency < 1e-3).repeat(2).nonzero().squeeze(1)
        parts = torch.linalg.qr(torch.randn(c.hidden_size, c.hidden_size))[0]
        shared, rest = parts[:, 0], parts[:, 1:]
        written = [rest[:, h * len(slow) : (h + 1) * len(slow)] for h in range(c.num_attention_heads)]
        own = rest[:, c.num_attention_heads * len(slow) :]
        table = F.normalize(torch.randn(c.vocab_size, own.shape[1]), dim=1)
        self.embed_tokens.weight.copy_(table @ own.T + shared)
        code = torch.linalg.qr(torch.randn(own.shape[1], len(slow)))[0].T @ own.T
        q, k, v, o = self.by_head(attention)
        for w in (q, k, v, o):
            w *= 0.1
        # After the norm an embedding has length sqrt(M), half of its square along the shared direction.
        along = math.sqrt(c.hidden_size / 2)
        v[:, slow] = code
        for head in range(c.num_attention_heads):
            self.look_at(q[head], k[head], shared / along, 1 + head, strength)
            o[:, head, slow] = written[head] / along * math.sqrt(own.shape[1] / len(slow))
        return shared, slow, own, [code * math.sqrt(own.shape[1] / len(slow))] + [w.T for w in written]

    def look_at(self, q, k, shared, offset, strength):
        """Adds to one head: q.k * head_dim^-1/2 = strength * sum over bands of cos((distance - offset) * frequency)."""
        c = self.config
        frequency = c.rope_theta ** (-torch.arange(0, c.head_dim, 2, dtype=torch.float64) / c.head_dim)
        amplitude = math.sqrt(strength * math.sqrt(c.head_dim))
        turns = (frequency > 1e-3).double()
        k += amplitude * torch.cat([turns, 0 * turns]).float()[:, None] * shared
        phase = frequency * offset
        q += amplitude * torch.cat([turns * phase.cos(), turns * -phase.sin()]).float()[:, None] * shared

    @torch.no_grad()
    def find_again(self, attention, shared, slow, own, back, heads):
        """A later layer finds where the same words stood before, and copies what followed them there.

        Each head is a list of pairs (a, b) with a strength: the word a places back from here is compared with the word
        b places back from there. A head given as a number looks that many tokens back instead, softly.
        """
        c = self.config
        q, k, v, o = self.by_head(attention)
        for w in (q, k, v, o):
            w *= 0.1
        width = min(c.head_dim, own.shape[1])
        for head, look in enumerate(heads):
            copy = torch.linalg.qr(torch.randn(own.shape[1], width))[0].T @ own.T
            v[head, :width] += 0.5 * copy
            o[:, head, :width] += 0.5 * copy.T
            if isinstance(look, int):
                self.look_at(q[head], k[head], shared / 4.0, look, 3.0)
                continue
            pairs, strength = look
            for here, there in pairs:
                turn = torch.linalg.qr(torch.randn(len(slow), len(slow)))[0]
                q[head, slow] += strength * turn @ back[here]
                k[head, slow] += strength * turn @ back[there]

    def by_head(self, attention):
        """Views of the four projections: q [H, D, M], k and v [K, D, M], o [M, H, D]."""
        c = self.config
        return (
            attention.q_proj.weight.data.view(c.num_attention_heads, c.head_dim, -1),
            attention.k_proj.weight.data.view(c.num_key_value_heads, c.head_dim, -1),
            attention.v_proj.weight.data.view(c.num_key_value_heads, c.head_dim, -1),
            attention.o_proj.weight.data.view(c.hidden_size, c.num_attention_heads, c.head_dim),
        )

    def hidden(self, ids):
        t = ids.shape[1]
        if self.table is None or self.table[0].shape[0] < t:
            self.table = rope_table(self.config, t)
        cos, sin = self.table[0][:t], self.table[1][:t]
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.embed_tokens.weight)

    def save(self, directory):
        """config.json and model.safetensors in Hugging Face's names."""
        from safetensors.torch import save_file

        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        # tau_proj is one vector [M], not a matrix of one row.
        tensors = {"model." + k: v.detach().float().contiguous() for k, v in self.state_dict().items()}
        tensors = {k: v.squeeze(0) if k.endswith("tau_proj.weight") else v for k, v in tensors.items()}
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
        (directory / "config.json").write_text(json.dumps(self.config.to_json(), indent=2) + "\n")


def load(directory):
    from safetensors.torch import load_file

    directory = pathlib.Path(directory)
    raw = json.loads((directory / "config.json").read_text())
    names = {f.name for f in dataclasses.fields(Config)}
    config = Config(**{k: v for k, v in raw.items() if k in names}, focal=raw.get("focal_attention"))
    model = Llama(config)
    tensors = {k.removeprefix("model."): v for k, v in load_file(directory / "model.safetensors").items()}
    model.load_state_dict({k: v.view(1, -1) if k.endswith("tau_proj.weight") else v for k, v in tensors.items()})
    return model


ARMS = {
    "baseline": None,
    "focal-constant": {"mode": "constant", "temperature": 0.4},
    "focal-learned": {
        "mode": "learned",
        "tau_min": 2.5,
        "tau_max": 5.65685424949238,
        "tau_mean": "causal",
    },
}
