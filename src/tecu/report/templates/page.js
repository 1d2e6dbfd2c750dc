for (const slider of document.querySelectorAll(".divider input")) {
  slider.addEventListener("input", () => slider.parentElement.style.setProperty("--at", slider.value + "%"));
}
