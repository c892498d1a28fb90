// Draws the blocks that are marked `mermaid`, in the colours of the page's theme.
(() => {
  const dark = ['navy', 'coal', 'ayu']
  const isDark = dark.some((name) => document.documentElement.classList.contains(name))
  for (const code of document.querySelectorAll('pre > code.language-mermaid')) {
    const drawing = document.createElement('div')
    drawing.className = 'mermaid'
    drawing.textContent = code.textContent
    code.parentElement.replaceWith(drawing)
  }
  const theme = isDark ? 'dark' : 'neutral'
  mermaid.initialize({ startOnLoad: true, theme, securityLevel: 'strict' })
})()
