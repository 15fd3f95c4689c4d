from cpgt.commands.main import main

main()
