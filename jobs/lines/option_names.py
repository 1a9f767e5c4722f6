"""Names of arguments and fields, of which the library speaks, as the options of the commands.

One place knows both; whoever reads a message of a command, or a side file that it wrote, finds
the cure in the words that can be typed.
"""

import re

_ALIKE = (
    # data and columns
    *("id_col", "time_col", "target_col", "time_zone", "freq", "future", "date_format"),
    *("separator", "decimal", "allow_other_frequency", "skip_refused", "device", "threads"),
    *("num_workers", "chunk_rows", "chunk_lines", "in_flight"),
    *("src_language", "tgt_language", "resume", "overwrite"),
    # search
    *("beam_size", "n_best", "length_penalty", "length_formula", "min_length", "max_length"),
    *("max_length_ratio", "max_length_margin", "patience", "no_repeat_ngram_size", "prefix"),
    *("repetition_penalty", "sample", "temperature", "top_k", "top_p", "seed"),
    *("replace_unknowns", "attention"),
    # servers
    *("tls_cert", "tls_key", "tls_client_ca", "health_needs_token", "max_series", "max_steps"),
    *("max_horizon", "max_sentences", "max_characters", "max_beam_size", "listen", "metrics"),
    *("trace_endpoint", "model_control", "poll_s", "pin", "workers", "instances", "max_queue"),
    *("max_batch_s", "max_connection_age_s", "max_hang_s", "drain_delay_s", "grace_s"),
    "metrics_open",
    *("compressed_requests", "log_format", "log_calls", "groups", "until"),
    # models and their training
    *("vocab_size", "d_model", "d_ff", "norm", "activation", "cell", "dropout", "positions"),
    *("steps", "batch_size", "batch_tokens", "learning_rate", "label_smoothing", "precision"),
    *("subword_dropout", "validate_every", "holdout", "horizon", "arch"),
)
_OPTIONS = {name: f"--{name.replace('_', '-')}" for name in _ALIKE} | {
    "banned": "--ban",
    "truncate_source": "--truncate",
    "num_heads": "--heads",
    "num_layers": "--layers",
    "num_encoder_layers": "--layers",
    "num_decoder_layers": "--decoder-layers",
    "max_source_length": "--max-length",
    "max_target_length": "--max-length",
    "warmup_steps": "--warmup",
    "context_length": "--context",
    "patch_length": "--patch",
    "max_message_bytes": "--max-message-mib",
    "max_queue_bytes": "--max-queue-mib",
}
# Fields of a run or a job that no option is named after, and flags that say no where their field
# says yes.
_FIELDS = {
    "frequency": "--freq",
    "quantile_levels": "--quantiles",
    "unique_id": "--id-col",
    "ds": "--time-col",
    "y": "--target-col",
    "format": "--format",
    "scores": "--scores",
    "columns": "--future-covariates, --past-covariates, --static",
    "languages": "--src-language, --tgt-language",
}
_TURNED = {
    "norm_first": "--post-norm",
    "bidirectional": "--one-way",
    "input_feeding": "--no-input-feeding",
    "tied_output": "--untied",
    "validation": "--no-validation",
}
# What differs between a run and what is asked for; see `model/run.py`.
_CHANGE = re.compile(r"^([a-z_]+): (.*) then, (.*) now\.$", re.MULTILINE)
# What is quoted is somebody's text, not a name.
_QUOTED = r"(?<!\w)'[^'\n]*'|\"[^\"\n]*\""
_NAME = re.compile(rf"{_QUOTED}|(?<![\w./-])[a-z]+(?:_[a-z]+)*(?![\w/-]|\.\w)")


def as_options(text: str) -> str:
    """Name options as they are typed where the library names arguments in parentheses.

    "give the frequency (freq)" becomes "give the frequency (--freq)".
    """

    def typed(match: re.Match[str]) -> str:
        names = match[1].split(", ")
        if not _OPTIONS.keys() >= set(names):
            return match[0]
        return f"({', '.join(_OPTIONS[name] for name in names)})"

    return re.sub(r"\(([a-z_]+(?:, [a-z_]+)*)\)", typed, text)


def problem_as_options(text: str) -> str:
    """Name options as they are typed in what is said of options, wherever names stand.

    A name that is also an English word counts at the start of a line only: "steps is 0; ...".
    """

    def typed(match: re.Match[str]) -> str:
        name = match[0]
        starts = match.start() == 0 or match.string[match.start() - 1] == "\n"
        if name not in _OPTIONS or not ("_" in name or starts):
            return name
        return _OPTIONS[name]

    text = _NAME.sub(typed, as_options(_CHANGE.sub(_change, text)))
    return "\n".join(dict.fromkeys(text.split("\n")))  # two fields may have one option


def _change(match: re.Match[str]) -> str:
    """Name the option behind a field that a run was started with otherwise."""
    name, *values = match.groups()
    if name in _TURNED:
        name, values = _TURNED[name], ["not given" if x == "True" else "given" for x in values]
    return f"{_FIELDS.get(name, name)}: {values[0]} then, {values[1]} now."
