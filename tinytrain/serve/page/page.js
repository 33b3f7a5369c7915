// The page of `tinytrain serve`: it shows the state that the server tells, and sends what a person does.
// Everything that came from outside is set as text, never as HTML.
import { WORDS } from "./words.js"

const $ = id => document.getElementById(id)
const VIEWS = ["collect", "enough", "learn", "live", "take"]
const FEW_THUMBS = 12, HISTORY = 50, AT_ONCE = 5, SIDE = 640 // the longest side of a frame that is sent, in pixels
const RECORD_EVERY = 200, PREDICT_EVERY = 80, TOAST = 9000 // milliseconds
const ITEM = /\.(jpe?g|jfif|p.[gm]|webp|avif|gif|tiff?|bmp|hei[cf]|wave?|flac|[ct]sv|npy)$/i

let state = { project: "", kind: "image", accept: "", clip: null, classes: [], undo: null, check: { state: "none" }, learn: { state: "idle" }, delta: null,
  trial: false, live: { history: [], drift: null }, camera: { source: "none", state: "off" }, take: [] }
let language = "en", view = "collect", losses = [], estimate = null, verdict = null, paused = false
const expanded = new Set(), phone = matchMedia("(pointer: coarse)").matches

// Words

function t(key, values = {}) {
  const words = WORDS[language], other = state.kind !== "image"
  const plural = "n" in values && `${key}.${new Intl.PluralRules(language).select(values.n)}`
  let text = words[other && `${key}.no image`] ?? words[plural] ?? words[key] ?? words[`${key}.other`] ?? key
  if (other) for (const pair of words.instead.split("|")) text = text.replaceAll(...pair.split("="))
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "")
}
const has = key => key in WORDS[language]
const number = (value, options) => new Intl.NumberFormat(language, options).format(value)
const percent = value => number(value, { style: "percent" })

function duration(seconds) {
  const [value, unit] = seconds < 90 ? [seconds, "second"] : [seconds / 60, "minute"]
  return number(Math.max(1, Math.ceil(value)), { style: "unit", unit, unitDisplay: "long" })
}

function size(bytes) {
  const [value, unit] = bytes < 1e6 ? [bytes / 1e3, "kilobyte"] : [bytes / 1e6, "megabyte"]
  return number(value, { style: "unit", unit, maximumFractionDigits: value < 10 ? 1 : 0 }).replace(" ", "\u00a0")
}

function speak(chosen) {
  language = chosen
  document.documentElement.lang = language
  const every = (name, set) => document.querySelectorAll(`[data-${name}]`).forEach(e => set(e, t(e.dataset[name])))
  every("t", (e, text) => { e.textContent = text })
  every("label", (e, text) => e.setAttribute("aria-label", text))
  every("alt", (e, text) => { e.alt = text })
  every("placeholder", (e, text) => { e.placeholder = text })
  document.querySelectorAll("[data-key]").forEach(e => e.remove()) // lists are made again, in the other language
  render()
}

// Elements

function h(kind, attributes = {}, ...children) {
  const element = document.createElement(kind)
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value)
    else if (key === "width" || key === "left") element.style[key] = value
    else if (value === true) element.setAttribute(key, "")
    else if (value !== false && value != null) element.setAttribute(key, value)
  }
  element.append(...children.filter(child => child != null))
  return element
}
const p = (text, kind, lang) => h("p", { class: kind, lang }, text)
const named = text => h("bdi", {}, text)
const picture = src => h("img", { src, alt: "", loading: "lazy" })
const small = id => picture(`/api/images/${id}/thumb`)

// Makes the children of `parent` those of `keys`: `make(key)` a new one, `update(element, key)` all of them. Elements
// that stay are not touched, so the focus stays where it is.
function sync(parent, keys, make, update = () => {}) {
  const there = new Map([...parent.children].map(e => [e.dataset.key, e]))
  keys.forEach((key, k) => {
    let element = there.get(key)
    there.delete(key)
    if (!element) {
      element = make(key)
      element.dataset.key = key
    }
    if (parent.children[k] !== element) parent.insertBefore(element, parent.children[k] ?? null)
    update(element, key)
  })
  there.forEach(element => element.remove())
}

// `parent` shows what `make` returns for `facts`, and is only changed if they do.
function show(parent, facts, make) {
  const key = JSON.stringify([language, facts])
  if (parent.dataset.shown === key) return
  parent.dataset.shown = key
  parent.replaceChildren(...make().filter(Boolean))
}

// Messages go when they are over, and do not cover what is done next.
const hush = () => { for (const box of $("toasts").children) box.replaceChildren() }
function say(text, undo = null, bad = false) {
  const toast = h("div", { class: "toast" }, h("span", {}, text))
  const close = () => toast.remove()
  if (undo) toast.append(h("button", { onclick: () => { close(); undo() } }, t("undo")))
  toast.append(h("button", { class: "icon", "aria-label": t("close"), onclick: close }, "✕"))
  const box = $("toasts").children[bad ? 1 : 0]
  if (!bad) hush()
  box.replaceChildren(toast)
  const timer = setInterval(() => { if (!toast.matches(":hover, :focus-within")) close(clearInterval(timer)) }, TOAST)
}

const put = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text }
const sleep = time => new Promise(done => setTimeout(done, time))

// The server

async function ask(method, path, body, type) {
  const options = { method, headers: {} }
  if (body instanceof Blob) [options.body, options.headers["Content-Type"]] = [body, type ?? body.type]
  else if (body) [options.body, options.headers["Content-Type"]] = [JSON.stringify(body), "application/json"]
  const answer = await fetch(path, options).catch(() => { throw { text: t("connection.lost") } })
  if (answer.ok) return answer
  if (answer.status === 401) expired()
  // What is too large is refused before it is sent, so that the rest of the answer may be lost.
  const code = answer.status === 413 ? "image-too-large" : null
  throw { code, text: answer.statusText, ...await answer.json().catch(() => null), status: answer.status }
}
const json = async (...request) => (await ask(...request)).json().catch(() => ({}))
const why = error => has(`error.${error.code}`) ? t(`error.${error.code}`) : error.text ?? String(error)
const told = error => say(t("error", { text: why(error) }), null, true)
const attempt = async (...request) => json(...request).catch(error => { told(error) })
const at = name => `/api/classes/${encodeURIComponent(name)}`
// Asks, and says that it is done; `back` takes it back.
async function act(method, path, body, said, back) {
  const done = await attempt(method, path, body)
  if (done) say(said, back)
  return done
}
const undo = () => act("POST", "/api/undo", null, t("undone"))
const move = (id, name) => act("PATCH", `/api/images/${id}`, { class: name }, t("picture.moved", { name }), undo)
const remove = id => act("DELETE", `/api/images/${id}`, null, t("picture.deleted"), undo)

// A short silence is no matter: it is said after three seconds.
let silence = null
function connection(key) {
  silence = clearTimeout(silence)
  $("connection").hidden = !key
  put("connection", key ? t(key) : "")
}
const expired = () => { stream?.close(); connection("connection.expired") }

// The first file of a project says what it has: then all is made again, in other words.
function take(facts) {
  const { kind } = state
  Object.assign(state, facts)
  if (state.kind !== kind) speak(language)
}

let stream = null
function listen() {
  stream = new EventSource("/api/events")
  const on = (name, act) => stream.addEventListener(name, event => { act(JSON.parse(event.data)); later() })
  stream.onopen = () => connection(null)
  stream.onerror = () => {
    silence ??= setTimeout(connection, 3000, "connection.lost")
    if (stream.readyState === EventSource.CLOSED) {
      const again = () => sleep(2000).then(listen)
      fetch("/api/status").then(answer => answer.status === 401 ? expired() : again(), again)
    }
  }
  on("status", facts => {
    take(facts)
    state.live.history.reverse()
    follow()
  })
  on("classes", take)
  on("check", facts => { state.check = facts; estimate = null })
  on("progress", facts => {
    if (facts.state) losses = []
    if (facts.loss != null) losses.push(facts.loss)
    state.learn = { state: "running", progress: facts.stage ? facts : null }
  })
  on("learned", facts => { state.learn = facts; estimate = null })
  on("drift", facts => { state.live.drift = facts.text })
  on("camera", facts => { state.camera = facts; follow() })
  on("readapt", () => say(t("readapt.hint")))
  on("verdict", found => {
    state.live.history = remembered(state.live.history, found)
    heard = Date.now()
    if (!paused && !(looking() && source === "browser")) saw(found)
  })
  on("correction", ({ id, class: name }) => {
    const { history } = state.live, entry = history.find(entry => entry.id === id)
    if (entry) entry.corrected = name
    else if (name) state.live.history = [{ id, class: null, corrected: name }, ...history].slice(0, HISTORY)
  })
  on("note", facts => say(facts.text))
}

// The history with one more verdict, the newest first. Of verdicts that say the same one after another, only the first
// is an entry: otherwise fifty would be gone in five seconds.
function remembered(history, found) {
  const rest = history.filter(entry => entry.id !== found.id), last = rest[0]
  const same = last?.class === found.class && last?.verdict === found.verdict && !last?.corrected && !found.corrected
  return last && same ? rest : [found, ...rest].slice(0, HISTORY)
}

// The camera

const secure = () => Boolean(navigator.mediaDevices?.getUserMedia)
const REFUSED = { NotAllowedError: "camera.denied", NotFoundError: "camera.missing", NotReadableError: "camera.busy" }
let picked = null, source = null, tracks = null, trouble = null, wished = false, lost = false, turning = false
const inUse = () => state.kind === "image" && (view === "collect" || view === "live")
const isOn = () => source === "browser" ? Boolean(tracks) : source !== "none" && state.camera.state === "ok"
const looking = () => view === "live" && isOn() && !document.hidden && state.delta && !paused

// The camera of a browser is its own matter; that of the device is everybody's, and first where there is one.
function sourceNow() {
  const given = state.camera.source
  return picked ?? (["device", "folder", "mjpeg"].includes(given) ? given : secure() ? "browser" : "none")
}

async function turnOn() {
  if (turning) return
  trouble = null
  turning = wished = true
  try {
    const video = { facingMode: "environment", width: { ideal: SIDE }, height: { ideal: 480 } }
    const found = await navigator.mediaDevices.getUserMedia({ audio: false, video }), [track] = found.getVideoTracks()
    if (source !== "browser" || !inUse()) return track.stop()
    lost = false
    tracks = found
    track.addEventListener("ended", () => { if (tracks === found) { turnOff(); lost = true; trouble = "camera.lost"; later() } })
    $("video").srcObject = tracks
    await $("video").play()
  } catch (error) {
    trouble = lost ? "camera.lost" : REFUSED[error.name] ?? "camera.missing"
  } finally {
    turning = false
    later()
  }
}

function turnOff() {
  tracks?.getTracks().forEach(track => track.stop())
  tracks = $("video").srcObject = null
}

// The camera of the browser is on only while it is seen; it comes back where it was allowed before, or was unplugged.
async function follow() {
  source = sourceNow()
  if (source !== "browser" || !inUse() || document.hidden) {
    turnOff()
  } else if (!tracks && (lost || !trouble) && secure()) {
    const allowed = await navigator.permissions?.query({ name: "camera" }).catch(() => null)
    if (!tracks && (wished || allowed?.state === "granted")) await turnOn()
  }
  later()
}

// What the camera of the browser sees, as a JPEG; null if it sees nothing.
async function frame() {
  const seen = $("video"), width = seen.videoWidth, height = seen.videoHeight
  if (!isOn() || !width) return null
  const canvas = document.createElement("canvas"), scale = Math.min(1, SIDE / Math.max(width, height))
  canvas.width = Math.round(width * scale)
  canvas.height = Math.round(height * scale)
  canvas.getContext("2d").drawImage(seen, 0, 0, canvas.width, canvas.height)
  return new Promise(done => canvas.toBlob(done, "image/jpeg", 0.92))
}

function renderCamera() {
  $("camera").hidden = !inUse()
  $("main").classList.toggle("with-camera", inUse())
  const now = source, select = $("source")
  const choices = ["browser", "device", "mjpeg", ...(state.camera.source === "folder" ? ["folder"] : []), "none"]
  sync(select, choices, key => h("option", { value: key }), (option, key) => {
    option.textContent = t(`camera.${key}`)
    option.disabled = key === "browser" && !secure()
  })
  if (document.activeElement !== select) select.value = now
  $("address").hidden = select.value !== "mjpeg" || (state.camera.source === "mjpeg" && state.camera.state === "ok")
  const remote = now !== "browser" && isOn(), shown = inUse() && !document.hidden && remote
  $("video").hidden = now !== "browser" || !tracks
  $("stream").hidden = !remote
  if (shown && !$("stream").getAttribute("src")) $("stream").src = `/api/camera.mjpeg?${Date.now()}`
  if (!shown && $("stream").getAttribute("src")) $("stream").removeAttribute("src")
  $("dark").hidden = now === "browser" ? Boolean(tracks) : remote
  const words = { starting: "camera.starting", lost: "camera.lost" }
  const key = now === "browser" ? trouble ?? "camera.off" : now === "none" ? (secure() ? "camera.off" : "camera.insecure")
    : words[state.camera.state] ?? "camera.off"
  const text = t(key) + (now !== "browser" && key === "camera.lost" && state.camera.text ? ` (${state.camera.text})` : "")
  put("camera-text", text)
  $("camera-on").hidden = !secure() || !["browser", "none"].includes(now)
}

async function choose(chosen) {
  trouble = null
  lost = false
  if (chosen === "mjpeg") { later(); return $("address").elements.address.focus() }
  if (chosen === "browser" || (chosen === "none" && source === "browser") || await attempt("POST", "/api/camera", { source: chosen })) picked = chosen
  await follow()
  $("source").value = source
}

// Pictures come in

let taking = null // what is recorded while a button is held
async function record(name, button) {
  if (!isOn()) return say(trouble || !secure() ? $("camera-text").textContent : t("record.camera"), null, true)
  const mine = taking = { n: 0, near: 0, error: null }, sent = new Set()
  const send = async blob => {
    const found = await json("POST", `${at(name)}/images?recording=1`, blob).catch(error => { mine.error = error })
    if (found) mine[found.kept ? "n" : "near"] += 1
  }
  hush()
  button.classList.add("on")
  do {
    const blob = source === "browser" ? await frame() : undefined // without a body, the device takes its own
    if (blob !== null && sent.size < AT_ONCE) {
      const one = send(blob).then(() => sent.delete(one))
      sent.add(one)
    }
    $("rolling").hidden = false
    put("rolling", t("recording", { n: mine.n }))
    await sleep(RECORD_EVERY)
  } while (taking === mine)
  button.classList.remove("on")
  await Promise.all(sent)
  $("rolling").hidden = true
  if (mine.error) return told(mine.error)
  const near = mine.near ? ` ${t("near", { n: mine.near })}` : ""
  say(t("added", { n: mine.n, name }) + near, mine.n ? undo : null)
}

// A clip from the microphone, as long as the network hears, as a WAV file; without what browsers do to voices.
async function clip() {
  const left = { echoCancellation: false, noiseSuppression: false, autoGainControl: false }
  const heard = await navigator.mediaDevices.getUserMedia({ audio: left }), context = new AudioContext()
  const rate = context.sampleRate, samples = new Int16Array(Math.ceil(state.clip * rate)), bytes = 2 * samples.length
  const node = context.createScriptProcessor(4096, 1, 1)
  await new Promise((done, failed) => {
    let at = 0
    node.onaudioprocess = ({ inputBuffer }) => {
      for (const x of inputBuffer.getChannelData(0)) samples[at++] = 32767 * Math.max(-1, Math.min(1, x))
      if (at >= samples.length) done()
    }
    heard.getTracks()[0].onended = failed
    context.createMediaStreamSource(heard).connect(node).connect(context.destination)
  }).finally(() => { heard.getTracks()[0].stop(); context.close() })
  // RIFF, WAVE, fmt: whole numbers, one channel, 16 bits; data
  const head = [0x46464952, 36 + bytes, 0x45564157, 0x20746d66, 16, 0x10001, rate, 2 * rate, 0x100002, 0x61746164, bytes]
  return new File([new Uint32Array(head), samples], "clip.wav", { type: "audio/wav" })
}

// Gives `send` a clip; one at a time.
async function hear(button, send) {
  if (taking) return
  taking = button
  button.classList.add("on")
  const found = await clip().catch(() => { say(t("clip.denied"), null, true) })
  button.classList.remove("on")
  taking = null
  if (found) send(found)
}

function recorder(name) {
  if (state.kind !== "image") {
    const button = h("button", { class: "record", "aria-label": t("clip.name", { name }), onclick: () => hear(button, file => upload(name, [file])) }, t("clip"))
    return state.clip ? button : null
  }
  const button = h("button", { class: "record", "aria-label": t("record.name", { name }) }, t("record"))
  const start = event => { event.preventDefault(); button.focus(); if (!taking) record(name, button) }
  const stop = () => { taking = null }
  button.onpointerdown = event => { if (event.button === 0) { button.setPointerCapture(event.pointerId); start(event) } }
  for (const end of ["pointerup", "pointercancel", "lostpointercapture", "blur"]) button.addEventListener(end, stop)
  button.oncontextmenu = event => event.preventDefault()
  button.onkeydown = event => { if ([" ", "Enter"].includes(event.key) && !event.repeat) start(event) }
  button.onkeyup = stop
  return button
}

// Sends `files` to a class, two at a time, and says what became of them.
async function upload(name, files) {
  const rest = [...files], n = rest.length, refused = []
  let done = 0, added = 0
  const one = async () => {
    for (let file; (file = rest.shift());) {
      try {
        const found = await json("POST", `${at(name)}/images`, file)
        if (found.kept) added += 1
        else refused.push(`${file.name} (${has(found.why) ? t(found.why) : found.why})`)
      } catch (error) {
        refused.push(`${file.name} (${why(error)})`)
      }
      done += 1
      if (n > 5 && rest.length) say(t("uploading", { name, done, n }))
    }
  }
  await Promise.all([one(), one()])
  if (added || !refused.length) say(t("added", { n: added, name }), added ? undo : null)
  else hush()
  if (refused.length) {
    const some = refused.slice(0, 3).join("; ") + (refused.length > 3 ? " …" : "")
    say(t("not.added", { n: refused.length, why: some }), null, true)
  }
}

// Files of what was dropped, by folder; "" for those in none.
async function dropped(items) {
  const found = new Map(), entries = [...items].map(item => item.webkitGetAsEntry?.()).filter(Boolean)
  const walk = async (entry, folder) => {
    if (entry.isFile) {
      const file = await new Promise((done, failed) => entry.file(done, failed))
      if (!folder || ITEM.test(file.name)) found.set(folder, [...(found.get(folder) ?? []), file])
    } else {
      const reader = entry.createReader()
      for (let part; (part = await new Promise((done, failed) => reader.readEntries(done, failed))).length;) {
        for (const inner of part) await walk(inner, entry.name)
      }
    }
  }
  for (const entry of entries) await walk(entry, "")
  return found
}

async function drop(event) {
  event.preventDefault()
  document.body.classList.remove("dropping")
  const target = event.target.closest?.("#classes > li")?.dataset.key
  const found = await dropped(event.dataTransfer.items)
  for (const [folder, files] of found) {
    const name = target ?? folder
    if (!name) {
      say(t("class.drop"), null, true)
    } else if (state.classes.some(row => row.name === name) || await attempt("POST", "/api/classes", { name })) {
      await upload(name, files)
    }
  }
}

// Collect

function sentence(row) {
  const { result, state: stage } = state.check, found = result?.by_class.find(of => of.name === row.name)
  if (!row.count) return ["warn", t("class.none")]
  if (!found && ["running", "waiting"].includes(stage)) return ["dim", t("class.seen")]
  if (found?.errors) return ["warn", t("class.unclear", found)]
  if (row.count < 5) return ["warn", t("class.few")]
  return found ? ["good", t("class.good")] : ["dim", ""]
}

function fileButton(key, name, attributes) {
  const input = h("input", { type: "file", "aria-label": t(`${key}.name`, { name }), ...attributes,
    onchange: () => { upload(name, [...input.files]); input.value = "" } })
  return h("label", { class: "button" }, h("span", {}, t(key)), input)
}

function card(name) {
  const title = h("input", { value: name, dir: "auto", maxlength: 80, "aria-label": t("class.name"), autocomplete: "off" })
  title.onchange = async () => {
    const wanted = title.value.trim()
    if (!wanted || wanted === name) title.value = name
    else if (taken(wanted) || !await attempt("PATCH", at(name), { name: wanted })) title.value = name
  }
  title.onkeydown = event => {
    if (event.key === "Escape") title.value = name
    if (["Enter", "Escape"].includes(event.key)) title.blur()
  }
  const end = async () => { if (await act("DELETE", at(name), null, t("deleted", { name }), undo)) $("new").elements.name.focus() }
  return h("li", { class: "card" },
    h("div", { class: "card-head" }, h("h2", { class: "unseen" }, named(name)), title,
      h("span", { class: "count" }), h("button", { class: "icon", "aria-label": t("class.delete", { name }), onclick: end }, "✕")),
    h("div", { class: "buttons" }, recorder(name), fileButton("files", name, { accept: state.accept, multiple: true }),
      phone && inUse() ? fileButton("photo", name, { accept: "image/*", capture: "environment" }) : null),
    h("p", { class: "words" }),
    h("ul", { class: "thumbs", "aria-label": t("class.pictures", { name }) }),
    h("button", { class: "more", hidden: true, onclick: () => { expanded.has(name) ? expanded.delete(name) : expanded.add(name); later() } }))
}

function fill(element, name) {
  const row = state.classes.find(row => row.name === name), all = expanded.has(name)
  const ids = row.images.slice(0, all ? undefined : FEW_THUMBS)
  const odd = new Set(state.check.result?.suspects.map(s => s.id))
  element.querySelector(".count").textContent = t("pictures", { n: row.count })
  sync(element.querySelector(".thumbs"), ids, id => h("li", {}, h("button", { onclick: () => open({ id, name }), onkeydown: walk }, small(id))),
    (item, id) => {
      const button = item.firstChild, k = ids.indexOf(id)
      button.setAttribute("aria-label", t("picture.number", { k: row.count - k, name }))
      button.classList.toggle("odd", odd.has(id))
      if (button !== document.activeElement) button.tabIndex = k ? -1 : 0
    })
  const more = element.querySelector(".more")
  more.hidden = row.images.length <= FEW_THUMBS
  more.textContent = all ? t("show.fewer") : t("show.all", { n: row.images.length })
  more.setAttribute("aria-expanded", all)
  const [tone, words] = sentence(row), line = element.querySelector(".words")
  line.className = `words ${tone}`
  if (line.textContent !== words) line.textContent = words
}

// One stop of the Tab key for all pictures of a class; arrows walk among them.
function walk(event) {
  const item = event.currentTarget.parentElement
  const there = { ArrowRight: item.nextElementSibling, ArrowLeft: item.previousElementSibling }[event.key]
  if (!there) return
  event.preventDefault()
  event.currentTarget.tabIndex = -1
  there.firstChild.tabIndex = 0
  there.firstChild.focus()
}

function renderCollect() {
  const { classes } = state, taught = filled()
  put("collect-empty", !classes.length ? t("collect.empty") : classes.length === 1 ? t("collect.single") : taught < 2 ? t("collect.few") : "")
  $("undo").hidden = !state.undo
  $("undo").title = state.undo ?? ""
  $("else").parentElement.hidden = !classes.length || classes.some(row => row.name === t("class.else.name"))
  sync($("classes"), classes.map(row => row.name), card, fill)
}

// One picture: where it belongs, and its end.
function open({ id, name, live = false }) {
  const others = live ? known() : state.classes.map(row => row.name).filter(other => other !== name)
  const dialog = $("picture"), choose = (chosen, isNew) => {
    dialog.close()
    if (live) correct(id, chosen, isNew)
    else move(id, chosen)
  }
  put("picture-title", live ? name ?? t("live.none") : t("picture.of", { name }))
  const path = `/api/${live ? "seen" : "images"}/${id}`, heard = state.kind === "sound"
  $("picture-image").src = state.kind === "image" ? path : `${path}/thumb`
  $("picture-sound").hidden = !heard
  $("picture-sound").src = heard ? path : ""
  put("picture-asks", live ? t("live.that") : others.length ? t("picture.move") : "")
  $("picture-classes").replaceChildren(chips(others, choose, live))
  $("picture-delete").hidden = live
  $("picture-delete").onclick = () => { dialog.close(); remove(id) }
  dialog.showModal()
}

// All classes, those that are not learnt yet, too: a correction teaches them.
const known = () => [...new Set([...state.delta.classes, ...state.classes.map(row => row.name)])]

// Buttons of classes, and one for a class that is new. `chosen(name, isNew)` is called.
function chips(names, chosen, withNew) {
  const box = h("div", { class: "chips" }, ...names.map(name => h("button", { onclick: () => chosen(name, false) }, named(name))))
  const name = h("input", { required: true, maxlength: 80, "aria-label": t("live.new.name"), placeholder: t("live.new.name"), autocomplete: "off" })
  const form = h("form", { hidden: true }, name, h("button", { class: "main" }, t("live.new.learn")))
  form.onsubmit = event => {
    event.preventDefault()
    chosen(name.value.trim(), !names.includes(name.value.trim()))
    form.hidden = true
    name.value = ""
    more.focus()
  }
  const more = h("button", { "aria-expanded": "false", onclick: () => { form.hidden = !form.hidden; held = verdict?.id; if (!form.hidden) name.focus() } }, t("live.new"))
  if (withNew) box.append(more, form)
  return box
}

// Enough?

function renderEnough() {
  const { check, classes } = state, box = $("enough-answer")
  const counts = classes.map(row => [row.name, row.count])
  show(box, [check, counts], () => {
    const result = check.result
    if (!result && check.text && filled() > 1) return [p(check.text, "hint", "en")]
    if (!result) return [p(t(check.state === "none" || !classes.length ? "learn.empty" : "enough.running"), "hint")]
    const { accuracy, low, high } = result.estimate, rows = advice(result)
    const estimated = accuracy == null ? [p(t("enough.unknown"), "figure")] : [
      p(t("enough.accuracy", { percent: percent(accuracy) }), "figure"), track(accuracy, low, high),
      p(t("enough.interval", { low: percent(low), high: percent(high) }), "dim")]
    return [
      ...estimated,
      check.state === "ready" ? null : p(t("enough.running"), "dim"),
      rows.length ? panel(t("enough.next"), rows) : null,
      panel(result.suspects.length ? t("enough.suspects") : t("enough.fine"), result.suspects.slice(0, 8).map(suspect),
        result.suspects.length ? t("enough.suspects.lead") : null),
      panel(t("enough.classes"), classes.map(row => {
        const [tone, words] = sentence(row)
        return h("li", {}, h("span", {}, h("strong", {}, named(row.name)), ` · ${t("pictures", { n: row.count })}`), h("span", { class: tone }, words))
      })),
    ]
  })
}

const panel = (title, rows, lead) => h("div", { class: "panel" }, h("h2", {}, title),
  lead ? p(lead, "dim") : null, rows.length ? h("ul", { class: "lines" }, ...rows) : null)

function advice({ next_class: next, confused, five_more: gain }) {
  const rows = [], name = next.name
  if (next.like) rows.push(h("li", {}, h("span", {}, t("enough.photograph.like", next)),
    h("button", { onclick: () => { location.hash = "collect"; requestAnimationFrame(() => findCard(name)?.querySelector(".record").focus()) } }, t("enough.go", { name }))))
  if (confused) rows.push(h("li", {}, h("span", {}, t("enough.confused", { a: confused.classes[0], b: confused.classes[1] }))))
  const points = gain && Math.round(100 * gain.gain)
  if (gain) rows.push(h("li", {}, h("span", {}, t(points > 0 ? "enough.gain" : "enough.gain.none", { points }))))
  return rows
}
function taken(name) {
  const found = state.classes.some(row => row.name === name)
  if (found) say(t("class.taken", { name }), null, true)
  return found
}
const filled = () => state.classes.filter(row => row.count).length
const findCard = name => [...$("classes").children].find(e => e.dataset.key === name)

function suspect({ id, given, looks_like: other, reason }) {
  const like = reason === "mislabelled"
  const words = t(like ? "enough.suspect" : "enough.suspect.odd", { name: given, other })
  return h("li", {}, id ? small(id) : null, h("span", {}, words),
    id && like ? h("button", { onclick: () => move(id, other) }, t("enough.move", { name: other })) : null,
    id ? h("button", { class: "icon", "aria-label": t("picture.delete"), onclick: () => remove(id) }, "✕") : null)
}

function track(fraction, low, high) {
  const wide = value => `${100 * Math.min(1, Math.max(0, value))}%`
  return h("span", { class: "track", "aria-hidden": "true" }, h("i", { width: wide(fraction) }),
    low == null ? null : h("u", { left: wide(low), width: wide(high - low) }))
}

// Learn

async function renderLearn() {
  const { learn, classes, delta } = state, ready = filled() >= 2, running = learn.state === "running"
  $("learning").hidden = !running
  $("start").hidden = running
  $("start").disabled = !ready
  put("start", t(delta ? "learn.again" : "learn.start"))
  $("start").classList.toggle("main", !delta)
  put("learn-before", running ? "" : !ready ? t("learn.empty") : !estimate ? t("learn.estimate")
    : !estimate.seconds ? "" : t("learn.before", { time: duration(estimate.seconds), bytes: size(estimate.bytes) }) + (delta ? "" : ` ${t("learn.first")}`))
  const progress = learn.progress
  if (progress?.total) $("progress").value = Math.min(1, progress.done / progress.total)
  else $("progress").removeAttribute("value")
  put("stage", progress && has(`stage.${progress.stage}`) ? t(`stage.${progress.stage}`) : "")
  drawLosses()
  show($("answer"), [learn.state, learn.answer, learn.error, running || (delta && classes.map(row => row.name))], () => answer(running))
  if (view === "learn" && ready && !running && !estimate) {
    estimate = {}
    put("learn-before", t("learn.estimate"))
    estimate = await json("GET", "/api/learn").catch(() => ({}))
    later()
  }
}

function drawLosses() {
  $("curve").hidden = losses.length < 2
  if (losses.length < 2) return
  const most = Math.max(...losses), points = losses.map((loss, k) => `${(300 * k) / (losses.length - 1)},${88 - (86 * loss) / most}`)
  $("curve").querySelector("polyline").setAttribute("points", points.join(" "))
  const short = value => number(value, { maximumSignificantDigits: 2 })
  put("loss", t("loss", { first: short(losses[0]), last: short(losses.at(-1)) }))
}

function answer(running) {
  const { learn, delta, classes } = state, found = learn.answer, parts = []
  if (running) return parts
  if (learn.state === "cancelled") parts.push(p(t("learn.cancelled"), "note"))
  if (learn.state === "failed") parts.push(h("div", { class: "note bad" }, p(t("learn.failed")), p(learn.error.text, null, "en")))
  const late = delta ? classes.map(row => row.name).filter(name => !delta.classes.includes(name)) : []
  if (late.length) parts.push(p(t("answer.new", { names: late.join(", ") }), "note"))
  if (!found) return parts
  const figures = ["as_it_was", "new_head", "adapted"], used = { adapted: "adapted", head: "new_head", cosine: "as_it_was" }[found.kept]
  const measured = found[used], best = measured?.accuracy ?? found.expected.accuracy
  const title = !found.accepted ? "answer.refused" : best == null ? "answer.done" : measured ? "answer.good" : "answer.about"
  parts.push(p(t(title, { percent: percent(best ?? 0) }), "figure"))
  if (found.accepted) parts.push(p(t(`kept.${found.kept}`)))
  else parts.push(p(found.refused_why, "note warn", "en"))
  const bars = figures.filter(key => found[key]).map(key => {
    const { accuracy, low, high } = found[key], value = t("figure", { percent: percent(accuracy), low: percent(low), high: percent(high) })
    return h("li", { class: key === used ? "bar strong" : "bar" }, h("b", {}, t(key)), h("span", {}, value), track(accuracy, low, high))
  })
  if (bars.length) parts.push(h("div", { class: "panel" }, h("h2", {}, t("answer.figures")), h("ul", {}, ...bars), p(t("figures.why"), "dim")))
  else parts.push(p(t("figures.none"), "dim"))
  parts.push(h("details", {}, h("summary", {}, t("answer.lines")), h("pre", { lang: "en" }, found.lines.join("\n"))))
  parts.push(h("p", {}, h("a", { href: found.report_url, target: "_blank", rel: "noopener" }, t("answer.report"))))
  return parts
}

// Live

// `held`: the picture that a person began to correct. `heard`: when there was a verdict, whoever asked for it.
let held = null, heard = 0, spokenAt = 0
async function watch() {
  for (;;) {
    const began = Date.now(), own = source === "browser"
    // Of several pages that look at the camera of the device, one at a time asks for all.
    if (looking() && (own || began - heard > PREDICT_EVERY * (1 + Math.random()))) {
      const blob = own ? await frame() : undefined
      try {
        if (blob !== null) saw(await json("POST", "/api/predict", blob))
      } catch (error) {
        if (error.status && ![409, 429, 503].includes(error.status)) told(error)
        await sleep(1000)
      }
    }
    await sleep(Math.max(looking() ? 10 : 200, own ? PREDICT_EVERY - (Date.now() - began) : 0))
  }
}

// A correction may have taught a class since the delta was made.
function saw(found) {
  verdict = found
  if (state.delta) state.delta.classes = Object.keys(found.scores)
  later()
}

function correct(id, name, isNew) {
  held = null
  if (!id || !name) return
  const back = () => act("POST", "/api/correct/undo", null, t("undone"))
  act("POST", "/api/correct", { id, class: name, new: isNew }, t("corrected", { name }), back)
}

function renderLive() {
  const { delta, live } = state
  $("live-empty").hidden = Boolean(delta || live.text)
  put("live-trouble", delta ? "" : live.text)
  $("seeing").hidden = !delta
  $("drift").hidden = !live.drift || !delta
  put("pause", t(paused ? "live.resume" : "live.pause"))
  $("pause").hidden = !isOn()
  $("hear").hidden = !state.clip
  put("hear", t("clip"))
  $("try").accept = state.accept
  $("readapt").disabled = state.learn.state === "running"
  if (!delta || view !== "live") return
  $("wrong").hidden = $("corrections").hidden = !verdict
  const sure = verdict && percent(verdict.confidence)
  const name = verdict ? verdict.class ?? t("live.none") : t("live.waiting")
  $("name").replaceChildren(named(name))
  put("sure", !verdict ? "" : verdict.class == null ? t("live.closest", { name: verdict.best_guess })
    : t(verdict.verdict === "uncertain" ? "live.unsure" : "live.sure", { percent: sure }))
  if (verdict && Date.now() - spokenAt > 2500 && $("spoken").dataset.said !== name) {
    spokenAt = Date.now()
    $("spoken").dataset.said = name
    put("spoken", verdict.class == null ? name : `${name}, ${t("live.sure", { percent: sure })}`)
  }
  sync($("bars"), delta.classes, name => h("li", { class: "bar" }, h("b", {}, named(name)), h("span", {}), track(0)), (row, name) => {
    const value = verdict?.scores[name] ?? 0
    row.classList.toggle("strong", verdict?.class === name)
    row.children[1].textContent = verdict ? percent(value) : ""
    row.querySelector("i").style.width = `${100 * value}%`
  })
  const names = known()
  // A name that is being typed stays.
  if (!$("corrections").querySelector("form:focus-within")) show($("corrections"), names, () => [chips(names, (name, isNew) => correct(held ?? verdict?.id, name, isNew), true)])
  sync($("history"), live.history.map(entry => entry.id), id => h("li", {}, h("button", { onclick: () => open({ id, name: live.history.find(e => e.id === id)?.class, live: true }) }, picture(`/api/seen/${id}/thumb`), h("span", {}))),
    (item, id) => {
      const entry = state.live.history.find(entry => entry.id === id)
      const words = entry.corrected ? t("live.corrected", { name: entry.corrected }) : entry.class ?? t("live.none")
      if (item.textContent !== words) item.querySelector("span").textContent = words
      item.firstChild.classList.toggle("fixed", Boolean(entry.corrected))
    })
}

// Take away

function takeCard(what) {
  const name = t(`take.${what}`), button = h("button", { "aria-label": t("take.download.name", { name }) }, t("take.download"))
  button.onclick = async () => {
    button.disabled = true
    button.textContent = t("take.making")
    try {
      const answer = await ask("GET", `/api/take/${what}`)
      const given = /filename="?([^";]+)/.exec(answer.headers.get("Content-Disposition") ?? "")
      const link = h("a", { href: URL.createObjectURL(await answer.blob()), download: given?.[1] ?? what })
      link.click()
      setTimeout(() => URL.revokeObjectURL(link.href), 60000)
    } catch (error) {
      told(error)
    }
    button.disabled = false
    button.textContent = t("take.download")
  }
  return h("li", { class: "card" }, h("h2", {}, name), p(t(`take.${what}.why`), "dim"), h("div", { class: "lined" }), h("div", { class: "buttons" }, button))
}

function renderTake() {
  $("take-empty").hidden = Boolean(state.delta)
  const lines = new Map(state.take.map(row => [row.what, row.line]))
  const shown = [...lines.keys()].filter(what => state.delta || (what === "images" && state.classes.length))
  sync($("takes"), shown, takeCard, (card, what) => {
    const line = lines.get(what)
    show(card.querySelector(".lined"), line, () => [p(t("take.line"), "dim"), h("code", {}, line),
      h("p", {}, h("button", { "aria-label": t("copy.name", { line }), onclick: () => copy(line) }, t("copy")))])
  })
}

// Over plain HTTP there is no navigator.clipboard; what is selected can be copied everywhere.
function copy(line) {
  const area = h("textarea", { class: "unseen" })
  area.value = line
  document.body.append(area)
  area.select()
  document.execCommand("copy")
  area.remove()
  say(t("copied"))
}

// All of it

let due = false
function later() {
  if (due) return
  due = true
  requestAnimationFrame(() => { due = false; render() })
}

function render() {
  const focused = []
  for (let e = document.activeElement; e !== document.body && e; e = e.parentElement) focused.push(e)
  renderAll()
  // If what has the focus goes, what is around it gets it, not the beginning of the page.
  const near = focused.find(e => e.getClientRects().length)
  if (!near || near === focused[0]) return
  near.tabIndex = -1
  near.classList.add("lost")
  near.focus({ preventScroll: true })
}

function renderAll() {
  const taught = filled()
  const done = { collect: taught >= 2, enough: state.check.state === "ready", learn: Boolean(state.delta), live: false, take: false }
  document.title = `${t(view)} · ${state.project || "tinytrain"}`
  put("project", state.project || "tinytrain")
  document.querySelectorAll("#steps a").forEach(link => {
    const key = link.hash.slice(1)
    link.parentElement.classList.toggle("done", done[key])
    if (key === view) link.setAttribute("aria-current", "step")
    else link.removeAttribute("aria-current")
  })
  VIEWS.forEach(name => { $(name).hidden = name !== view })
  // The way on, or to what is missing first.
  document.querySelectorAll(".onward a").forEach(link => {
    const first = view === "collect" || state.delta ? null : taught < 2 ? "collect" : view === "live" ? "learn" : null
    link.setAttribute("href", `#${first ?? link.dataset.next}`)
    link.textContent = t(first ? "first" : "next", { step: t(first ?? link.dataset.next) })
    link.classList.toggle("main", Boolean(first) || done[view])
  })
  $("trial").hidden = !state.trial
  const above = view === "live" ? $("corrections") : $("answer")
  if (above.nextElementSibling !== $("trial")) above.after($("trial"))
  renderCamera()
  renderCollect()
  renderEnough()
  renderLearn()
  renderLive()
  renderTake()
}

function go(moved) {
  const wanted = location.hash.slice(1)
  view = VIEWS.includes(wanted) ? wanted : "collect"
  render()
  if (moved) {
    scrollTo(0, 0)
    $("main").focus({ preventScroll: true })
  }
  follow()
}

function begin() {
  const known = Object.keys(WORDS), spoken = [localStorage.getItem("language"), ...navigator.languages]
  const wanted = spoken.map(code => code?.slice(0, 2)).find(code => known.includes(code)) ?? "en"
  $("language").append(...known.map(code => h("option", { value: code, lang: code, selected: code === wanted }, WORDS[code]["language.name"])))
  $("language").onchange = event => { localStorage.setItem("language", event.target.value); speak(event.target.value) }
  $("new").onsubmit = async event => {
    event.preventDefault()
    const name = event.target.elements.name.value.trim()
    if (!name || taken(name) || !await attempt("POST", "/api/classes", { name })) return
    event.target.reset()
    hush()
    if (phone) event.target.elements.name.blur() // its keyboard goes away
    setTimeout(() => findCard(name)?.scrollIntoView({ block: "nearest" }), 100)
  }
  $("else").onclick = () => attempt("POST", "/api/classes", { name: t("class.else.name") })
  VIEWS.forEach((name, k) => {
    const next = VIEWS[k + 1]
    $("steps").append(h("li", {}, h("a", { href: `#${name}` }, h("i", {}, k + 1), h("span", { "data-t": name }))))
    if (next) $(name).append(h("p", { class: "onward" }, h("a", { class: "button", "data-next": next })))
  })
  $("undo").onclick = undo
  $("source").onchange = event => choose(event.target.value)
  $("address").onsubmit = async event => {
    event.preventDefault()
    if (await attempt("POST", "/api/camera", { source: "mjpeg", address: event.target.elements.address.value })) { picked = "mjpeg"; follow() }
  }
  $("camera-on").onclick = () => { picked = source = "browser"; turnOn() }
  $("start").onclick = async () => { losses = []; await attempt("POST", "/api/learn") }
  $("cancel").onclick = () => attempt("DELETE", "/api/learn")
  $("pause").onclick = () => { paused = !paused; later() }
  $("try").onchange = async event => {
    const file = event.target.files[0]
    event.target.value = ""
    paused = isOn()
    tried(file)
  }
  const tried = async file => { const found = await attempt("POST", "/api/predict", file); if (found) saw(found) }
  $("hear").onclick = () => hear($("hear"), tried)
  // A finger needs longer than a frame: what is corrected is what was there when it came down.
  $("corrections").onpointerdown = () => { held ??= verdict?.id }
  $("readapt").onclick = async () => { if (await attempt("POST", "/api/learn")) location.hash = "learn" }
  $("keep").onclick = () => act("POST", "/api/keep", null, t("kept"))
  $("back").onclick = () => act("POST", "/api/back", null, t("gone.back"))
  $("picture").onclose = () => $("picture-sound").pause()
  $("picture-close").onclick = () => $("picture").close()
  $("picture").onclick = event => { if (event.target === $("picture")) $("picture").close() }
  addEventListener("dragover", event => { event.preventDefault(); document.body.classList.add("dropping") })
  addEventListener("dragleave", event => { if (!event.relatedTarget) document.body.classList.remove("dropping") })
  addEventListener("drop", drop)
  addEventListener("hashchange", () => go(true))
  addEventListener("visibilitychange", follow)
  addEventListener("pagehide", turnOff)
  speak(wanted)
  listen()
  go(false)
  watch()
  setInterval(() => { if (lost) follow() }, 2000)
}

begin()
