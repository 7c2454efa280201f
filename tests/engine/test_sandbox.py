"""Templates come out of files: what they may not do, and how far they may go."""

import time

import jinja2
import pytest

from engine.sandbox import Sandbox
from engine.template import ChatTemplate, PromptMessage, TemplateError


class PlainVocabulary:
    """A vocabulary of characters."""

    specials = ()
    adds_bos = False
    bos_id = None
    bos_text = eos_text = ""

    def tokenize(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    tokenize_fragment = tokenize


BIG = "{% set big = 'x' * 1000000 %}"
# Small in memory, immense as text.
DOUBLED = "{% set n = namespace(v=[1]) %}{% for i in range(60) %}{% set n.v = [n.v, n.v] %}{% endfor %}"


def rendered(source: str, content: str = "Hi") -> str:
    prompt = ChatTemplate(source, PlainVocabulary()).render([PromptMessage(role="user", content=content)])
    return "".join(map(chr, prompt.ids))


def reason(source: str) -> str:
    with pytest.raises(TemplateError) as caught:
        rendered(source)
    return str(caught.value)


def test_the_templates_own_message_is_passed_on() -> None:
    assert reason("{{ raise_exception('roles must alternate') }}") == "roles must alternate"


def test_a_template_that_does_not_compile_names_the_line() -> None:
    assert reason("a\n{% if %}").startswith("line 2: ")
    assert "100000" not in reason("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}")


def test_other_faults_are_named() -> None:
    assert "undefined" in reason("{{ missing.attribute.of_it }}")
    assert "ZeroDivisionError" in reason("{{ 1 // 0 }}")


def test_what_templates_use_works() -> None:
    assert rendered("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "01"
    assert rendered("{{ [1, 'é<>&', messages[0].content] | tojson }}") == '[1, "é<>&", "Hi"]'
    assert rendered("{{ {'b': 1, 'a': 2} | tojson(indent=1, sort_keys=true) }}") == '{\n "a": 2,\n "b": 1\n}'
    assert rendered("{% generation %}{{ 1 ~ 'a' ~ none }}{% endgeneration %}") == "1aNone"
    loop = "{% for m in 'abc' %}{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% endfor %}"
    assert rendered(loop) == "1/3False 2/3False 3/3True "
    assert rendered("{% for a in missing %}x{% else %}none{% endfor %}") == "none"
    assert rendered("{% for a in 'abcd' if a in 'bd' %}{{ a }}{{ loop.revindex }}{% endfor %}") == "b2d1"
    tree = "{% for n in [[1, [2]], [3]] recursive %}{{ loop(n) if n is iterable else n }}{% endfor %}"
    assert rendered(tree) == "123"
    assert rendered("{{ [1, none] }}{{ {'a': 1.5} }}{{ true }}") == "[1, None]{'a': 1.5}True"
    assert rendered("{{ 'a-b' | replace('-', '+') }}{{ 'a-b'.replace('-', '') }}") == "a+bab"
    assert rendered("{{ ('a a a' * 9) | replace(' ', '', 1000000) }}").startswith("aaa")
    assert rendered("{{ [1, 2] | map('string') | join('+') }}{{ messages | join('', 'role') }}") == "1+2user"
    assert rendered("{{ [1, 2] | join(', ') }}{{ '-'.join(['a', 'b']) }}") == "1, 2a-b"
    assert rendered("{{ '%s %d' | format('a', 2) }}{{ '{}{}'.format(1, 'b') }}{{ '%s' % 3 }}") == "a 21b3"
    assert (
        rendered("{{ 'a\nb' | indent(2) }}{{ messages | map(attribute='role') | list }}") == "a\n  b['user']"
    )
    assert rendered("  {% if true %}\nx\n  {% endif %}\ny\n") == "x\ny"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__self__ }}",
    ],
)
def test_what_would_lead_out_of_the_sandbox_is_refused(source: str) -> None:
    try:
        assert rendered(source) == ""
    except TemplateError as error:
        assert "unsafe" in str(error) or "undefined" in str(error)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 1000000000 }}",
        "{{ [0] * 1000000000 }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ 'a'.ljust(1000000000) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '{:>{w}}'.format('a', w=1000000000) }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ range(1000000000) | list }}",
        "{% set n = namespace(s='ab') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "{% set n = namespace(s='ab') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% set n = namespace(s=[1]) %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% for i in range(99999) %}" + "x" * 1000 + "{% endfor %}",
        "{% set x %}{% for i in range(99999) %}" + "x" * 1000 + "{% endfor %}{% endset %}",
        "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% set b = 'x' * 8000000 %}{% set y %}{% for i in range(999) %}{{ b }}{% endfor %}{% endset %}",
        "{{ [[1]] | tojson(indent=100000000) }}",
        "{{ [[1]] | tojson(indent='x' * 8000000) }}",
        "{{ [1, 2] | tojson(separators=('x' * 9000000, ':')) }}",
        DOUBLED + "{{ n.v | tojson }}",
        DOUBLED + "{{ n.v }}",
        DOUBLED + "{{ n.v ~ '' }}",
        DOUBLED + "{{ n.v | string }}",
        DOUBLED + "{{ [n.v] | join }}",
        DOUBLED + "{{ [n.v] | map('upper') | list }}",
        DOUBLED + "{{ '%s' % (n.v,) }}",
        DOUBLED + "{{ '{}'.format(n.v) }}",
        "{% set n = namespace() %}{% for i in range(60) %}{% set n.a = namespace(b=n.a, c=n.a) %}{% endfor %}{{ n }}",
        BIG + "{{ big.replace('x', big) }}",
        BIG + "{{ big | replace('x', big) }}",
        BIG + "{{ big | replace('', big) }}",
        BIG + "{{ big.join(big) }}",
        BIG + "{{ ([1] * 1000000) | join(big) }}",
        BIG + "{{ big | join(big) }}",
        BIG + "{{ ([big] * 1000000) | map('string') | join }}",
        BIG + "{{ ([1] * 50000) | map('string') | join(big) }}",
        BIG + "{{ ('%s' * 1000000) % (big,) }}",
        BIG + "{{ ('%(a)s' * 1000000) % {'a': big} }}",
        BIG + "{{ ('%(a)s' * 1000000) | format(a=big) }}",
        BIG + "{{ ('{0}' * 1000000).format(big) }}",
        BIG + "{{ ('\\t' * 1000000).expandtabs(1000000) }}",
        BIG + "{{ ('\\n' * 1000000) | indent(big) }}",
        BIG + "{{ big | wordwrap(1, wrapstring=big) }}",
        BIG + "{{ big.translate({120: big}) }}",
        "{{ lipsum(100000) }}",
    ],
)
def test_what_would_fill_the_memory_is_refused_at_once(source: str) -> None:
    before = time.process_time()
    assert reason(source)
    assert time.process_time() - before < 3


@pytest.mark.parametrize(
    "step",
    [
        "'x' * 4000000 ~ i",
        "('é' * 1000000).upper()",
        "big[i:]",
        "big.split('x')",
        "big[:9999] | list",
        "[i] * 100000",
    ],
)
def test_many_steps_below_the_limits_cannot_fill_the_memory_together(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text was small enough, and a list kept all of them: gigabytes within the five seconds."""
    monkeypatch.setattr("engine.sandbox._SECONDS", 1e9)
    monkeypatch.setattr("engine.sandbox._BUILT_BYTES", 1 << 25)
    loop = f"{{% for i in range(99999) %}}{{% set n.v = n.v + [{step}] %}}{{% endfor %}}"
    assert "MB" in reason(BIG + "{% set n = namespace(v=[]) %}" + loop)


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    ],
)
def test_what_would_run_forever_is_stopped(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.sandbox._SECONDS", 0.2)
    assert "seconds" in reason(source)


def test_an_immense_template_is_not_compiled() -> None:
    with pytest.raises(jinja2.TemplateError, match="characters"):
        Sandbox("x" * (1 << 21))
