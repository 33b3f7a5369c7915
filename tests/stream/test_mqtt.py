"""MQTT: what is published is what Home Assistant documents, and a real broker brings corrections back."""

import json
import re
import socket
import time

import pytest
from cases import each
from mqttbroker import Home, broker, free_port
from watching import verdict

from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.events import Failed, Note, Progress
from tinytrain.stream import mqtt as module
from tinytrain.stream.events import Drift, Learned
from tinytrain.stream.mqtt import Address, Mqtt, discovery, parse_address
from tinytrain.stream.readers import Readers
from tinytrain.stream.session import About

CLASSES = ("ant", "bee", "cat")


@pytest.fixture
def port():
    return free_port()


# ---- addresses --------------------------------------------------------------------------------------


@each(
    "text, facts",
    [
        ("mqtt://h", ("h", 1883, "tinytrain/", False, None, None)),
        ("mqtts://h", ("h", 8883, "tinytrain/", True, None, None)),
        ("mqtt://h:99/garden/cam/", ("h", 99, "garden/cam", False, None, None)),
        ("mqtt://u:p%40%3A@h/x%20y", ("h", 1883, "x y", False, "u", "p@:")),
        ("mqtt://[::1]:9/x", ("::1", 9, "x", False, None, None)),
    ],
)
def test_an_address_names_broker_topic_user_and_password(text, facts):
    found = parse_address(text, {})
    host, port, topic, *rest = facts
    assert (found.host, found.port, found.tls, found.user, found.password) == (host, port, *rest)
    assert found.topic == topic or (topic == "tinytrain/" and re.fullmatch(r"tinytrain/[\w-]+", found.topic))


def test_user_and_password_may_come_from_the_environment_and_are_shown_nowhere():
    given = {"TINYTRAIN_MQTT_USER": "u", "TINYTRAIN_MQTT_PASSWORD": "secret"}
    found = parse_address("mqtt://h", given)
    assert (found.user, found.password) == ("u", "secret") and "secret" not in repr(found)
    assert parse_address("mqtt://v:other@h", given).password == "other"


@each(
    "rest",
    ["@", "@h:0", "@h:99999", "@h:x", "@h?q=1", "@h#f", "@h/a/+/b", "@h/a/%23", "@h/$SYS", "@h/a//b",
     "@h/a%0ab", "@" + "a" * 70 + ".de", "@h/" + "t" * 201],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_its_password(rest):
    for scheme in ("mqtt", "mqtts"):
        with pytest.raises(UsageError) as refused:
            parse_address(f"{scheme}://user:secret{rest}", {})
        with pytest.raises(UsageError) as cut:
            parse_address(f"{scheme}://user:1/secret@h", {})
        assert "secret" not in str(cut.value) + str(refused.value) and "mqtt://host" in str(refused.value)
    for text in ("", "h", "h:1883", "http://h", "//h"):
        with pytest.raises(UsageError):
            parse_address(text, {})


# ---- Home Assistant ---------------------------------------------------------------------------------

# Options of its documentation, by platform; those that are required first.
SHARED = {"platform", "unique_id", "name"}
DOCUMENTED = {
    "sensor": (
        {"state_topic"},
        {"json_attributes_topic", "value_template", "unit_of_measurement", "state_class"},
    ),
    "binary_sensor": ({"state_topic"}, {"value_template", "device_class", "payload_on", "payload_off"}),
    "button": ({"command_topic"}, {"payload_press"}),
    "select": ({"command_topic", "options"}, {"state_topic", "value_template"}),
}


def test_the_discovery_message_is_what_home_assistant_documents_for_a_device():
    topic, found = discovery("home/garden cam", CLASSES)
    assert topic == "homeassistant/device/home_garden_cam/config"
    assert found.keys() == {"device", "origin", "availability_topic", "components"}
    assert found["device"]["identifiers"] == ["home_garden_cam"] and found["device"]["name"] == "garden cam"
    assert found["origin"]["name"] == "tinytrain"
    components = found["components"]
    assert {name: one["platform"] for name, one in components.items()} == {
        "class": "sensor", "confidence": "sensor", "drift": "binary_sensor", "wrong": "button",
        "correct": "select",
    }  # fmt: skip
    for one in components.values():
        required, others = DOCUMENTED[one["platform"]]
        assert SHARED | required <= one.keys() <= SHARED | required | others
        assert all(re.fullmatch(r"home/garden cam/\w+", v) for k, v in one.items() if k.endswith("_topic"))
    assert len({one["unique_id"] for one in components.values()}) == len(components)
    assert components["correct"]["options"] == [*CLASSES]
    json.dumps(found)


def test_its_templates_show_the_class_the_confidence_and_the_drift():
    jinja2 = pytest.importorskip(
        "jinja2", reason="Jinja, in which Home Assistant reads templates, is not here"
    )
    components = discovery("x", CLASSES)[1]["components"]

    def shown(**facts):
        named = {name: one["value_template"] for name, one in components.items() if "value_template" in one}
        return {n: jinja2.Template(text).render(value_json=facts) for n, text in named.items()}

    facts = {"class": "bee", "confidence": 0.7512, "verdict": "identified", "drift": "stable"}
    assert shown(**facts) == {"class": "bee", "confidence": "75.1", "drift": "OFF", "correct": "bee"}
    facts |= {"class": None, "verdict": "unknown", "drift": "drift"}
    assert shown(**facts) == {"class": "unknown", "confidence": "75.1", "drift": "ON", "correct": "None"}


# ---- a broker ---------------------------------------------------------------------------------------


def words_of(readers):
    """The next words that are there."""
    assert any(readers.has_words or time.sleep(0.005) for _ in range(10_000))
    return readers.words()


def watching(port, told=lambda event: None, classes=CLASSES):
    return Readers(told, [Mqtt(Address("127.0.0.1", port, "x"), lambda: tuple(classes))])


def test_home_assistant_sees_states_and_corrects_the_image_that_it_saw(port, tmp_path):
    classes = [*CLASSES]
    with broker(port, tmp_path):
        with watching(port, classes=classes) as readers, Home(port) as home:
            assert json.loads(home.next("homeassistant/device/x/config")) == discovery("x", CLASSES)[1]
            assert home.next("x/status") == "online"
            readers(verdict("a.png"))
            assert home.state() == {
                "image": "a.png", "class": "bee", "best_guess": "bee", "confidence": 0.75,
                "verdict": "identified", "drift": "stable", "wrong": None,
            }  # fmt: skip
            home.say("correct", "cat")
            assert words_of(readers) == [About("a.png", "cat")]
            home.say("wrong", "PRESS")  # then it takes a while to say what it is
            home.state(wrong="a.png")
            readers(verdict("b.png", "ant"))
            assert home.state(image="b.png")["wrong"] == "a.png"
            home.say("correct", "+dog")
            assert words_of(readers) == [About("a.png", "+dog")]
            home.state(image="b.png", wrong=None)
            home.say("correct", "cat")
            assert words_of(readers) == [About("b.png", "cat")]
            classes.append("dog")
            readers(Learned("a.png", "dog", new=True))
            assert json.loads(home.next("x/event"))["class"] == "dog"
            config = json.loads(home.next("homeassistant/device/x/config"))
            assert config["components"]["correct"]["options"] == classes
            readers(Drift("b.png"))
            home.state(drift="drift")
            readers(Learned("b.png", "cat"))
            home.state(drift="stable")
        with Home(port) as home:  # what is retained
            config, state, status = home.each("homeassistant/device/x/config", "x/state", "x/status")
            assert json.loads(config) == discovery("x", classes)[1] and status == "offline"
            assert json.loads(state)["image"] == "b.png"


def test_of_two_classes_wrong_alone_means_the_other_one(port, tmp_path):
    names = "empty", "full"
    with broker(port, tmp_path), Home(port) as home, watching(port, classes=names) as readers:
        home.next("x/status")  # from then on it listens
        for name, other in (names, names[::-1]):
            readers(verdict(name, name))
            home.state(image=name)
            home.say("wrong")
            assert words_of(readers) == [About(name, f"={other}")]


def test_a_retained_command_a_very_long_one_and_one_that_is_no_text_do_not_count(port, tmp_path):
    told = []
    with broker(port, tmp_path), Home(port) as home:
        home.say("correct", "ant", retain=True)
        home.say("wrong", "", retain=True)
        with watching(port, told.append) as readers:
            home.next("x/status")
            readers(verdict("a.png"))
            home.state()
            home.say("correct", "x" * 1001)
            home.say("correct", b"+\xff")
            home.say("correct", "bee")
            assert words_of(readers) == [About("a.png", "bee")]
    assert ["no word" in event.words() for event in told if isinstance(event, Note)] == [True]


def test_states_that_differ_in_confidence_alone_are_one_a_second(port, tmp_path):
    now = [0.0]
    mqtt = Mqtt(Address("127.0.0.1", port, "x"), lambda: CLASSES, clock=lambda: now[0])
    with broker(port, tmp_path), Home(port) as home, mqtt:
        home.next("x/status")
        for number in range(25):
            now[0] = number / 10
            mqtt(verdict(str(number), confidence=number / 100))
            while not mqtt._events.empty():
                time.sleep(0.001)
            time.sleep(0.002)  # until it is heard
        mqtt(verdict("last", None, "unknown"))
        shown = []
        while "last" not in shown:
            shown.append(home.state()["image"])
    assert shown == ["0", "10", "20", "last"]


def test_hints_and_progress_are_not_published_and_errors_are(port, tmp_path):
    with broker(port, tmp_path), Home(port) as home, watching(port) as readers:
        home.next("x/status")
        for event in (Progress("training", 1, 2), Failed(InputError("image-unreadable", "no image"), {})):
            readers(event)
        assert json.loads(home.next("x/event"))["code"] == "image-unreadable"


def test_a_broker_that_goes_and_comes_back_is_found_again_and_has_the_last_state(port, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RETRY", (0.02, 0.02))
    told, failed, lost = [], [], Mqtt._lost
    monkeypatch.setattr(Mqtt, "_lost", lambda self, why: (failed.append(why), lost(self, why)))
    with watching(port, told.append) as readers:
        readers(verdict("a.png"))
        for outage in (1, 2):
            assert any(len(failed) >= 3 * outage or time.sleep(0.005) for _ in range(2_000)), failed
            with broker(port, tmp_path), Home(port) as home:
                _, state, status = home.each("homeassistant/device/x/config", "x/state", "x/status")
                assert json.loads(state)["image"] == "a.png" and status == "online"
            readers.words()
        readers(verdict("b.png"))
    notes = [event.words() for event in told if isinstance(event, Note)]
    assert notes[0].startswith(f"--mqtt: 127.0.0.1:{port}: ") and "the stream goes on" in notes[0]
    assert [note.endswith("is there again") for note in notes] == [k % 2 == 1 for k in range(len(notes))]
    assert len(notes) in (4, 5), "each outage is said once, the last one perhaps before the end"


def test_a_broker_that_refuses_the_password_is_said_without_it(port, tmp_path):
    told, address = [], Address("127.0.0.1", port, "x", user="u", password="secret")
    mqtt = Mqtt(address, lambda: CLASSES)
    with broker(port, tmp_path, "allow_anonymous false"), Readers(told.append, [mqtt]) as readers:
        while not told:
            readers.words()
            time.sleep(0.01)
    assert "uthor" in told[0].words() and "secret" not in told[0].words()


def test_a_broker_that_never_answers_stops_nothing():
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with watching(silent.getsockname()[1]) as readers:
            for number in range(2000):
                readers(verdict(str(number)))
        assert readers.words() == []


def test_without_the_package_the_remedy_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "paho.mqtt.client", None)
    with pytest.raises(InputError, match=r"package-missing: .*pip install 'paho-mqtt"):
        Mqtt(Address("h", 1, "x"), lambda: CLASSES)
