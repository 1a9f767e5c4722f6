"""What the model reads must be what the user wrote, and text must never act as control."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st

from foretell.data.errors import BundleError, OptionError
from foretell.data.text.normalising import normalise
from foretell.data.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from foretell.data.text.tokenizer_training import learn_tokenizer, train_tokenizer

SENTENCES = [
    'The café is open, they\'re "déjà vu" & <b>naïve</b> coöperation.',
    "Stop here </s> and then go on <0x41> <unk> [EOS] ⁇.",
    "Ångström and crème brûlée; 가나다 notebook, nine o'clock, 99 €.",
    "漢字 かな があります 👩\u200d👧",
] * 10
NAMES = [
    "</s>",
    "<s>",
    "<pad>",
    "<unk>",
    "<0x41>",
    "<0xE2>",
    "[EOS]",
    ">>de<<",
    "▁",
    "⁇",
    "▅",
    "▁the",
]
TEXTS = st.lists(
    st.sampled_from([*NAMES, " ", "the ", "e\u0301", "👩\u200d👧", "漢", "か", "\u3099", "\x01"])
    | st.text(st.characters(exclude_categories=()), max_size=8)
).map("".join)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request, tmp_path_factory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    return train_tokenizer(SENTENCES, 420, path, model_type=request.param)


@pytest.fixture(scope="module")
def merges() -> Tokenizer:
    return learn_tokenizer(SENTENCES, 420)


@pytest.fixture(scope="module")
def closed(tmp_path_factory) -> Tokenizer:
    """A tokenizer without bytes for what it doesn't know."""
    path = tmp_path_factory.mktemp("closed") / "tokenizer.model"
    return train_tokenizer(SENTENCES, 150, path, byte_fallback=False)


class TestThereAndBack:
    @given(text=TEXTS)
    @example(text="a\u2581b \u2581 \u2581\u2581c\u2581")
    @example(text="\u2585 \u2047 \ufffd")
    def test_every_text_comes_back_in_its_normal_form(self, tokenizer, text: str) -> None:
        """HB06. Nothing is dropped, whatever the alphabet."""
        assert tokenizer.decode(tokenizer.encode(text)) == normalise(text)

    @given(text=TEXTS)
    def test_no_text_yields_a_special_id(self, tokenizer, closed, text: str) -> None:
        """HB03: the names of control tokens are words like others."""
        assert set(tokenizer.encode(text)).isdisjoint({PAD, BOS, EOS, UNK})
        assert set(closed.encode(text)).isdisjoint({PAD, BOS, EOS})

    @pytest.mark.parametrize("name", NAMES)
    def test_names_of_control_tokens_read_as_written(self, tokenizer, name: str) -> None:
        for text in (name, f"Stop here {name} and go on.", f"a{name}{name}b"):
            assert tokenizer.decode(tokenizer.encode(text)) == text

    @given(text=TEXTS)
    def test_texts_of_one_normal_form_have_the_same_ids(self, tokenizer, text: str) -> None:
        assert tokenizer.encode(text) == tokenizer.encode(normalise(text))

    def test_blank_texts_have_no_pieces(self, tokenizer) -> None:
        assert tokenizer.encode(" \u200b\n") == []
        assert tokenizer.decode([]) == ""
        assert tokenizer.words("\t") == ()


class TestDecoding:
    @given(data=st.data())
    def test_any_ids_give_one_line_of_valid_text(self, tokenizer, data: st.DataObject) -> None:
        """A model may write any bytes; LF, U+2028 and half characters must not leave."""
        text = tokenizer.decode(draw_ids(data, tokenizer))
        assert normalise(text) == text
        text.encode()

    def test_bytes_that_end_lines_become_spaces(self, tokenizer) -> None:
        pieces = {piece: token for token, piece in enumerate(all_pieces(tokenizer))}
        ends = [pieces[f"<0x{byte:02X}>"] for byte in b"a\nb\r\nc\xe2\x80\xa8d\xc2\x85e"]
        assert tokenizer.decode(ends) == "a b c d e"

    def test_special_ids_are_left_out_wherever_they_stand(self, tokenizer) -> None:
        ids = tokenizer.encode("The notebook")
        mixed = [BOS, PAD, *(one for token in ids for one in (token, PAD)), EOS, PAD]
        assert tokenizer.decode(mixed) == "The notebook"

    @pytest.mark.parametrize("token", [-1, 420, 10**9])
    def test_ids_outside_the_vocabulary_are_refused(self, tokenizer, token: int) -> None:
        """A negative index would quietly name a piece from the end."""
        with pytest.raises(ValueError, match=rf"the ids \[{token}\] are no pieces; expected 0 to"):
            tokenizer.decode([5, token])
        with pytest.raises(ValueError, match="are no pieces"):
            tokenizer.pieces([token])

    @given(data=st.data())
    def test_what_is_shown_of_a_stream_never_changes(self, tokenizer, data: st.DataObject) -> None:
        ids = draw_ids(data, tokenizer)
        whole = tokenizer.decode(ids)
        shown = [tokenizer.decode_settled(ids[:length]) for length in range(len(ids) + 1)]
        for earlier, later in zip(shown, [*shown[1:], whole], strict=True):
            assert later.startswith(earlier)

    def test_streams_show_words_once_they_are_whole(self, tokenizer) -> None:
        ids = tokenizer.encode("Stop notebook ж漢ж字ж 👩\u200d👧 end")
        shown = dict.fromkeys(tokenizer.decode_settled(ids[:n]) for n in range(len(ids) + 1))
        words = "|Stop|Stop notebook|Stop notebook ж|Stop notebook ж漢ж|Stop notebook ж漢ж字ж"
        assert [*shown] == [*words.split("|"), "Stop notebook ж漢ж字ж 👩\u200d👧"]


class TestUnknowns:
    def test_what_the_vocabulary_cannot_spell_is_reported(self, tokenizer, closed) -> None:
        """HB06: reported, not dropped."""
        text = "The Ωmega notebook Ωmega ж▁"
        assert closed.unknown_words(text) == ("Ωmega", "ж▁")
        assert closed.decode(closed.encode(text)) == "The ⁇mega notebook ⁇mega ⁇"
        assert tokenizer.unknown_words(text) == ()

    def test_unknowns_read_as_what_they_stand_for(self, closed) -> None:
        ids = closed.encode("Ω and жЖ and Ω")
        assert ids.count(UNK) == 3
        assert closed.decode(ids, ["one", "two\n▁ "]) == "one and two ▁ and ⁇"

    @given(text=TEXTS)
    def test_each_piece_knows_its_word(self, tokenizer, closed, text: str) -> None:
        """Slow way: the pieces of words encoded alone, since no piece spans two words."""
        for one in (tokenizer, closed):
            alone = [(word, one.encode(word)) for word in normalise(text).split(" ") if word]
            assert one.words(text) == tuple(word for word, ids in alone for _ in ids)
            assert one.encode(text) == [token for _, ids in alone for token in ids]


class TestSharing:
    def test_threads_and_copies_agree(self, tokenizer) -> None:
        texts = [f"{text} {number}" for text in SENTENCES for number in range(5)]
        expected = [tokenizer.encode(text) for text in texts]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(tokenizer.encode, texts)) == expected
        copy = pickle.loads(pickle.dumps(tokenizer))
        assert [copy.encode(text) for text in texts] == expected
        assert copy.to_bytes() == tokenizer.to_bytes()

    def test_a_file_that_is_no_tokenizer_is_refused(self, tokenizer, tmp_path: Path) -> None:
        path = tmp_path / "tokenizer.model"
        with pytest.raises(BundleError, match=r"tokenizer .*model can't be read \(No such file"):
            Tokenizer.from_file(path)
        for content in (b"", b"plain text", tokenizer.to_bytes()[:-7], bytes(1000)):
            path.write_bytes(content)
            with pytest.raises(BundleError, match=r"tokenizer .*model: this is no SentencePiece"):
                Tokenizer.from_file(path)

    def test_a_tokenizer_of_other_rules_is_refused_with_all_reasons(self) -> None:
        """Its ids would mean other things to the model, its texts would not come back."""
        model = BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=75, minloglevel=3
        )
        with pytest.raises(BundleError) as caught:
            Tokenizer.from_bytes(model.getvalue())
        ids, rules = caught.value.problems
        assert ids.startswith("the ids of pad, bos, eos and unk are [-1, 1, 2, 0]; expected [0, 1,")
        assert rules.startswith("it normalises text by its own rules; expected the identity")


class TestTraining:
    @pytest.mark.parametrize("model_type", ["bpe", "unigram"])
    def test_the_same_sentences_give_the_same_file_in_silence(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], model_type
    ) -> None:
        paths = [tmp_path / name for name in ("one", "two")]
        for path in paths:
            trained = train_tokenizer(iter(SENTENCES), 400, path, model_type=model_type)
            assert Tokenizer.from_file(path).to_bytes() == trained.to_bytes()
        assert paths[0].read_bytes() == paths[1].read_bytes()
        assert capfd.readouterr() == ("", "")

    def test_ids_are_where_they_are_promised(self, tokenizer, closed) -> None:
        for one in (tokenizer, closed):
            pieces = all_pieces(one)
            assert [pieces[token] for token in (PAD, BOS, EOS, UNK)] == [
                "<pad>",
                "<s>",
                "</s>",
                "<unk>",
            ]
            assert len(set(pieces)) == one.vocab_size
        assert tokenizer.byte_fallback
        assert not closed.byte_fallback

    def test_a_small_text_gives_a_small_vocabulary(self, tmp_path: Path) -> None:
        """Asking for 8,000 pieces of a toy text must not fail; the answer tells how many it has."""
        small = train_tokenizer(["one two"], 8_000, tmp_path / "t.model", byte_fallback=False)
        assert 5 < small.vocab_size < 40
        assert small.decode(small.encode("two one")) == "two one"

    def test_sentences_are_learned_in_their_normal_form_whatever_they_hold(
        self, tmp_path: Path
    ) -> None:
        """Composed and not, with a reserved character, and longer than SentencePiece's default."""
        long = "spam and eggs " * 1_000
        variants = ["cafe\u0301 \u2585 time\u2028now", "café\u2581time now", "", "\u200b", long]
        one = train_tokenizer(variants, 300, tmp_path / "one")
        other = train_tokenizer(["café time now"] * 2 + [long], 300, tmp_path / "two")
        assert one.to_bytes() == other.to_bytes()
        assert {"▁eggs", "▁café"} <= set(all_pieces(one))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"vocab_size": 270},
                r"is 270, .* at least 3\d\d pieces: \d+ for its characters, 256 bytes, 4 special",
            ),
            ({"vocab_size": 20, "byte_fallback": False}, r"\d+ for its characters, 4 special ones"),
            ({"vocab_size": 4}, "vocab_size is 4; it must be a whole number of 5 to"),
            ({"character_coverage": 0.5}, "character_coverage is 0.5; it must be 0.9 to 1"),
            ({"sentences": [" ", "\u200b"]}, "are all blank; give some text"),
        ],
    )
    def test_what_cannot_be_learned_is_refused(
        self, tmp_path: Path, options: dict[str, object], message: str
    ) -> None:
        arguments: dict[str, object] = {"sentences": SENTENCES, "vocab_size": 400, **options}
        with pytest.raises(OptionError, match=message):
            train_tokenizer(path=tmp_path / "t.model", **arguments)  # type: ignore[arg-type]
        assert not (tmp_path / "t.model").exists()

    def test_the_least_vocabulary_that_is_told_is_enough(self) -> None:
        with pytest.raises(OptionError) as caught:
            learn_tokenizer(SENTENCES, 260)
        least = int(str(caught.value).split("Set vocab_size to ")[1].split()[0])
        assert learn_tokenizer(SENTENCES, least).vocab_size == least
        with pytest.raises(OptionError, match=f"Set vocab_size to {least} or more"):
            learn_tokenizer(SENTENCES, least - 1)

    def test_an_error_of_the_sentences_comes_through(self, tmp_path: Path) -> None:
        """A line of a file that is no UTF-8 must be told as such, not in words of C++."""

        def sentences():
            yield "one"
            raise BundleError("line 2 is no text")

        with pytest.raises(BundleError, match="line 2 is no text"):
            train_tokenizer(sentences(), 300, tmp_path / "t.model")


class TestVaried:
    @given(texts=st.lists(TEXTS, max_size=5), share=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
    def test_any_spelling_reads_as_the_text(self, merges, texts, share, seed) -> None:
        """The model learns more spellings of the same words, and never other words."""
        varied = merges.encode_varied(texts, share, seed)
        assert [merges.decode(ids) for ids in varied] == [normalise(text) for text in texts]
        assert not {PAD, BOS, EOS, UNK} & {token for ids in varied for token in ids}
        assert merges.encode_varied(texts, share, seed) == varied

    def test_the_last_seed_fixes_the_choice_too(self, merges) -> None:
        """To sentencepiece 2**32 - 1 means a seed of its own choice."""
        texts = [" ".join(SENTENCES)] * 3
        found = [merges.encode_varied(texts, 0.5, 2**32 - 1) for _ in range(3)]
        assert found[1:] == found[:1] * 2

    def test_nothing_left_out_is_the_usual_spelling(self, merges) -> None:
        texts = [*SENTENCES, *NAMES]
        assert merges.encode_varied(texts, 0.0, 3) == [merges.encode(text) for text in texts]

    def test_the_more_merges_are_left_out_the_more_pieces_there_are(self, merges) -> None:
        counts = [
            sum(map(len, merges.encode_varied(SENTENCES, share, 1)))
            for share in (0.0, 0.1, 0.5, 1.0)
        ]
        assert counts == sorted(set(counts))

    def test_seeds_differ(self, merges) -> None:
        assert merges.encode_varied(SENTENCES, 0.1, 1) != merges.encode_varied(SENTENCES, 0.1, 2)


def all_pieces(tokenizer: Tokenizer) -> tuple[str, ...]:
    return tokenizer.pieces(range(tokenizer.vocab_size))


def draw_ids(data: st.DataObject, tokenizer: Tokenizer) -> list[int]:
    """Ids as a model may write them: text, and any others between."""
    ids = st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=4)
    parts = data.draw(st.lists(ids | TEXTS, max_size=6))
    encoded = [tokenizer.encode(part) if isinstance(part, str) else part for part in parts]
    return [token for part in encoded for token in part]
